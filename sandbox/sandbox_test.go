package sandbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/sandbox"
	"playground/sandbox/sandboxtest"
)

func newProvider(t *testing.T, limit int) (*sandbox.Provider, *sandboxtest.Jails, *sandboxtest.Jobs) {
	t.Helper()
	jails := &sandboxtest.Jails{Prefix: "pg"}
	jobs := &sandboxtest.Jobs{Jails: jails, Root: t.TempDir()}
	t.Cleanup(jobs.Shutdown)
	return sandbox.New(jails, jobs, sandbox.Options{Prefix: "pg", FileBytes: limit}), jails, jobs
}

func open(t *testing.T, p *sandbox.Provider, tenant string) string {
	t.Helper()
	s, err := p.Open(t.Context(), tenant, jail.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Name
}

// Foreign, unknown, empty and closed sessions must not be told apart.
func TestSessionRefusalsReadAlike(t *testing.T) {
	p, _, jobs := newProvider(t, 0)
	open(t, p, "bob")
	ctx := t.Context()
	type call func(session string) error
	calls := map[string]call{
		"exec": func(s string) error {
			_, err := p.Exec(ctx, "alice", s, sandbox.Command{Text: "true"}, 10, 10)
			return err
		},
		"job":   func(s string) error { _, err := p.JobStart(ctx, "alice", s, sandbox.Command{Text: "true"}); return err },
		"read":  func(s string) error { _, err := p.Read(ctx, "alice", s, "f", ""); return err },
		"write": func(s string) error { _, err := p.Write(ctx, "alice", s, "f", "", nil); return err },
		"close": func(s string) error { _, err := p.Close(ctx, "alice", s); return err },
	}
	for name, call := range calls {
		for _, session := range []string{"", "pg-bob", "pg-nobody", "pg-alice"} { // the last is hers but not open
			err := call(session)
			if !errors.Is(err, fault.NotFound) || err.Error() != "unknown session" || fault.HintOf(err) == "" {
				t.Errorf("%s(%q) = %v (kind %q, hint %q)", name, session, err, fault.KindOf(err), fault.HintOf(err))
			}
		}
	}
	for _, spec := range jobs.Specs() {
		if spec.Tenant != "alice" {
			t.Errorf("a spec of tenant %q was made", spec.Tenant)
		}
	}
}

func TestExecSpec(t *testing.T) {
	p, _, jobs := newProvider(t, 0)
	session := open(t, p, "alice")
	e, err := p.Exec(t.Context(), "alice", session, sandbox.Command{Text: "cat; exit 3", Stdin: []byte("in"), Timeout: time.Second}, 100, 100)
	if err != nil || e.Outcome != job.Exited || *e.ExitCode != 3 || string(e.Stdout.Head) != "in" {
		t.Fatalf("got %+v, %v", e, err)
	}
	want := job.Spec{Tenant: "alice", Command: []byte("cat; exit 3"), Mode: job.Login, Stdin: []byte("in"), Timeout: time.Second}
	if diff := cmp.Diff(want, jobs.Specs()[0]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	for _, bad := range []sandbox.Command{{}, {Text: "a\x00b"}, {Text: "true", Cwd: "a\x00"}} {
		if _, err := p.Exec(t.Context(), "alice", session, bad, 1, 1); !errors.Is(err, fault.Invalid) {
			t.Errorf("Exec(%+v) = %v, want invalid", bad, err)
		}
	}
}

func TestJobs(t *testing.T) {
	p, _, _ := newProvider(t, 0)
	session := open(t, p, "alice")
	status, err := p.JobStart(t.Context(), "alice", session, sandbox.Command{Text: "echo hello"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.JobPoll(t.Context(), "bob", status.JobID, 0, 0); !errors.Is(err, fault.NotFound) {
		t.Errorf("foreign poll: %v", err)
	}
	if _, err := p.JobCancel(t.Context(), "bob", status.JobID); !errors.Is(err, fault.NotFound) {
		t.Errorf("foreign cancel: %v", err)
	}
	var out []byte
	for cursor := int64(0); ; {
		page, err := p.JobPoll(t.Context(), "alice", status.JobID, cursor, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Chunks {
			out = append(out, c.Data...)
		}
		cursor = page.NextCursor
		if page.Result != nil {
			break
		}
	}
	if string(out) != "hello\n" {
		t.Errorf("output %q", out)
	}
}

func TestCloseCountsHandles(t *testing.T) {
	p, jails, _ := newProvider(t, 0)
	session := open(t, p, "alice")
	open(t, p, "alice")
	for want := 1; want >= 0; want-- {
		if s, err := p.Close(t.Context(), "alice", session); err != nil || s.Handles != want {
			t.Fatalf("Close = %+v, %v; want %d handles", s, err, want)
		}
	}
	if _, err := p.Close(t.Context(), "alice", session); !errors.Is(err, fault.NotFound) {
		t.Errorf("closing a closed session: %v", err)
	}
	if n := jails.Handles("alice"); n != 0 {
		t.Errorf("%d handles left", n)
	}
}

// What daemons tell operators must not reach a tenant, but must still be there for the log.
func TestDaemonErrors(t *testing.T) {
	p, _, jobs := newProvider(t, 0)
	session := open(t, p, "alice")
	secret := fault.New(fault.Unavailable, "cannot reach reaperd at /var/run/x.sock: connection refused").WithHint("service x start")
	dial := fault.Wrap(fault.Denied, errors.New("cause"), "cannot dial")
	plain := fault.New(fault.Unavailable, "the host is shutting down").WithHint("try again")
	jobs.Fake = func(job.Spec) (job.Execution, error, bool) {
		return job.Execution{}, fault.New(fault.Invalid, "cannot enter folder \"/none\": no such file or directory"), true
	}
	if _, err := p.Exec(t.Context(), "alice", session, sandbox.Command{Text: "true"}, 1, 1); !strings.Contains(fault.HintOf(err), "open_session") || !strings.Contains(err.Error(), "/none") {
		t.Errorf("a folder that is not there: %v, hint %q", err, fault.HintOf(err))
	}
	for _, test := range []struct{ in, want error }{{secret, nil}, {dial, nil}, {plain, plain}} {
		jobs.Fake = func(job.Spec) (job.Execution, error, bool) { return job.Execution{}, test.in, true }
		_, err := p.Exec(t.Context(), "alice", session, sandbox.Command{Text: "true"}, 1, 1)
		if test.want != nil {
			if err != test.want {
				t.Errorf("got %v, want it unchanged", err)
			}
			continue
		}
		if !errors.Is(err, fault.Unavailable) || err.Error() != "the sandbox service cannot do this now" || !errors.Is(err, test.in) {
			t.Errorf("%v became %v", test.in, err)
		}
	}
}
