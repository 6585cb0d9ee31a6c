package jailapi_test

import (
	"errors"
	"testing"

	"playground/fault"
	"playground/internal/socktest"
	"playground/localapi"
	"playground/localapi/jailapi"
)

// The name arrives as it was, whatever it holds, and the daemon's refusal comes back.
func TestSealAudit(t *testing.T) {
	var got string
	client := jailapi.NewClient(socktest.Serve(t, localapi.Handler(jailapi.AuditRoutes(func(file string) error {
		if got = file; file == "bad" {
			return fault.New(fault.Denied, "no")
		}
		return nil
	}, all()), localapi.Options{})))
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
