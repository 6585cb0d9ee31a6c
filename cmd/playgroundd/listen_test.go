package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"playground/config"
)

func TestListen(t *testing.T) {
	dir, err := os.MkdirTemp("", "pd") // short: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var c config.Config
	c.Host.RunDir, c.HTTP.Listen = dir, "127.0.0.1:0"
	open, err := listen(c)
	if err != nil {
		t.Fatal(err)
	}
	if open.mcp == nil || open.operator == nil || open.metrics != nil {
		t.Errorf("open: %+v", open)
	}
	open.close()
	// The last one fails; the others must be free again.
	c.HTTP.MetricsListen, c.Host.RunDir = "127.0.0.1:0", filepath.Join(dir, "missing")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP.Listen = taken.Addr().String()
	if _, err := listen(c); err == nil {
		t.Error("listened on an address that is taken")
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(c); err == nil {
		t.Error("listened in a folder that is missing")
	}
	again, err := net.Listen("tcp", c.HTTP.Listen)
	if err != nil {
		t.Fatalf("the endpoint's socket stayed open: %v", err)
	}
	_ = again.Close()
}
