package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/fault"
)

func TestInstanceKey(t *testing.T) {
	dir := t.TempDir()
	path, records := filepath.Join(dir, "instance.key"), filepath.Join(dir, "records.db")
	first, err := instanceKey(path, records)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if again, err := instanceKey(path, records); err != nil || !again.Equal(first) {
		t.Errorf("the second start has another key (%v)", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".instance-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := instanceKey(path, records); !errors.Is(err, fault.Invalid) || !strings.Contains(fault.HintOf(err), "chmod 600") {
		t.Errorf("a key that others read: %v", err)
	}
	for name, text := range map[string]string{"empty": "", "text": "hello\n", "cut": "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n"} {
		damaged := filepath.Join(dir, name)
		if err := os.WriteFile(damaged, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := instanceKey(damaged, records); !errors.Is(err, fault.Invalid) || strings.Contains(err.Error(), "MC4C") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The log without its key.
	if err := os.WriteFile(records, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := instanceKey(filepath.Join(dir, "gone.key"), records); !errors.Is(err, fault.Invalid) || !strings.Contains(fault.HintOf(err), "restore") {
		t.Errorf("a log without its key: %v", err)
	}
}
