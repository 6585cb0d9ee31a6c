package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"playground/faculty/bundle"
)

// Whoever interrupts an installation into many tenants learns which of them have it.
func TestInterruptedInstallation(t *testing.T) {
	for _, asJSON := range []bool{true, false} {
		var out bytes.Buffer
		e := &Env{Stdout: &out, Stderr: &bytes.Buffer{}, JSON: asJSON}
		ctx, cancel := context.WithCancel(t.Context())
		var asked []string
		err := e.eachTenant(ctx, []string{"ann", "bob", "zoe"}, func(tenant string) (bundle.Installation, error) {
			asked = append(asked, tenant)
			if tenant == "bob" {
				cancel()
				return bundle.Installation{}, ctx.Err()
			}
			return bundle.Installation{Tenant: tenant, Name: "tool", Current: strings.Repeat("ab", 32)}, nil
		})
		if !errors.Is(err, context.Canceled) || len(asked) != 2 {
			t.Errorf("%v, asked for %v", err, asked)
		}
		if !asJSON {
			if !strings.Contains(out.String(), "tenant ann has tool@") {
				t.Errorf("%q", out.String())
			}
			continue
		}
		var done []bundle.Installation
		if err := json.Unmarshal(out.Bytes(), &done); err != nil || len(done) != 1 || done[0].Tenant != "ann" {
			t.Errorf("%v in %q", err, out.String())
		}
	}
}

// A build that is damaged is marked in the list.
func TestCohortRow(t *testing.T) {
	c := bundle.Cohort{Name: "tool", Fingerprint: strings.Repeat("ab", 32), Binaries: []bundle.Binary{{Name: "x"}}}
	installed := []bundle.Installation{{Tenant: "ann", Name: "tool", Current: c.Fingerprint}, {Tenant: "bob", Name: "other", Current: c.Fingerprint}, {Tenant: "zoe", Name: "tool", Previous: c.Fingerprint}}
	if row := cohortRow(c, installed); row[2] != "x" || row[3] != "ann, zoe (previous)" {
		t.Errorf("%q", row)
	}
	c.Damaged = "it is gone"
	if row := cohortRow(c, nil); row[2] != "DAMAGED" || row[3] != "-" {
		t.Errorf("%q", row)
	}
}
