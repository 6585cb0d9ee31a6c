package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestTablesAreCurrent fails when the filter's source changed and go generate was not run.
func TestTablesAreCurrent(t *testing.T) {
	for goarch, machine := range targets {
		want, err := generate(goarch, machine)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "..", "reaper", "jobinit", fileName(goarch)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator writes: run go generate ./reaper/jobinit", fileName(goarch))
		}
	}
}
