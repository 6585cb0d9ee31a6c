package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"playground/fault"
	"playground/localapi"
	"playground/localapi/jobapi"
)

// A fakeHost stands for reaperd.
type fakeHost struct {
	cleaned jobapi.Cleaned
	err     error
}

func (f fakeHost) Clean(context.Context) (jobapi.Cleaned, error) { return f.cleaned, f.err }
func (f fakeHost) Usage(context.Context) (jobapi.Usage, error)   { return nil, nil }

func TestClean(t *testing.T) {
	for _, test := range []struct {
		name string
		host fakeHost
		want []string // in what is printed
		err  error
	}{
		{"nothing", fakeHost{}, []string{"nothing to clean: no earlier daemon left"}, nil},
		{"nothing there can be", fakeHost{cleaned: jobapi.Cleaned{Reason: "the kernel did it"}}, []string{"nothing to clean: the kernel did it\n"}, nil},
		{"leftovers", fakeHost{cleaned: jobapi.Cleaned{Jails: []string{"pg-a.j1"}, Limits: []string{"pg-a.j1", "pg-b.j2"}}},
			[]string{"removed jail pg-a.j1", "removed the limits of jail pg-b.j2\n"}, nil},
		{"not proved", fakeHost{cleaned: jobapi.Cleaned{Jails: []string{"pg-a.j1"}, Left: []string{"pg-b.j2"}}, err: errors.New("it stays")},
			[]string{"removed jail pg-a.j1", "LEFT: jail pg-b.j2"}, fault.ProofLost},
		{"not possible", fakeHost{err: errors.New("the kernel keeps no accounts")}, nil, fault.Unavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			me := localapi.Uids(uint32(os.Geteuid()))
			for _, asJSON := range []bool{false, true} {
				e, stdout, _ := env(t, fakeUsers{}, asJSON)
				serveRoutes(t, e, "reaperd.sock", jobapi.Routes(nil, test.host, jobapi.Access{Operators: me}))
				if err := e.Clean(t.Context()); !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
					t.Errorf("got %v, want %v", err, test.err)
				}
				if asJSON {
					if !json.Valid(stdout.Bytes()) || !strings.Contains(stdout.String(), `"jails": [`) {
						t.Errorf("not the JSON that was wanted: %s", stdout)
					}
					continue
				}
				for _, want := range test.want {
					if !strings.Contains(stdout.String(), want) {
						t.Errorf("no %q in %q", want, stdout)
					}
				}
			}
		})
	}
}
