package jailapi_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"playground/fault"
	"playground/localapi"
	"playground/localapi/jailapi"
)

// The name arrives as it was, whatever it holds, and the daemon's refusal comes back.
func TestSealAudit(t *testing.T) {
	dir, err := os.MkdirTemp("", "jail")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "jaild.sock")
	ln, err := localapi.Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	server := localapi.Server(localapi.Handler(jailapi.AuditRoutes(func(file string) error {
		if got = file; file == "bad" {
			return fault.New(fault.Denied, "no")
		}
		return nil
	}, all()), localapi.Options{}))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	defer func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	client := jailapi.NewClient(path)
	defer client.Disconnect()
	for _, file := range []string{"records-2026-01-02-000001.jsonl", "a b", "x?y#z", "a/b"} {
		if err := client.SealAudit(t.Context(), file); err != nil || got != file {
			t.Errorf("%q: got %q, %v", file, got, err)
		}
	}
	if err := client.SealAudit(t.Context(), "bad"); !errors.Is(err, fault.Denied) {
		t.Errorf("got %v, want denied", err)
	}
}
