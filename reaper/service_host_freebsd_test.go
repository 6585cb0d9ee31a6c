//go:build host

package reaper_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"playground/job"
	"playground/racct"
	"playground/reaper"
	"playground/reaper/bsdproc"
)

// serve runs a service until stop is called, which returns its end.
func serve(t *testing.T, r *reaper.Runner, argv ...string) (out *output, stop func() job.Result) {
	t.Helper()
	spec := job.Spec{Tenant: "alice", Mode: job.Program, Cwd: "/", Service: "svc-1", Env: [][]byte{[]byte("PATH=/bin:/usr/bin"), []byte("X=a b")}}
	for _, arg := range argv {
		spec.Argv = append(spec.Argv, []byte(arg))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	out = &output{}
	ended := make(chan job.Result, 1)
	go func() {
		res, err := r.Run(ctx, spec, out)
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	return out, func() job.Result {
		cancel(job.ErrCancelled)
		return <-ended
	}
}

// TestHostService: a program runs in a leaf jail with exactly its words and environment, under the leaf's rules; the kernel's
// numbers for it are those of all its processes; and it ends with all of them. (sh(1) becomes the last command of its text itself,
// unless that is one of its own, such as wait.)
func TestHostService(t *testing.T) {
	r := host(t)
	out, stop := serve(t, r, "/bin/sh", "-c", `env; echo "$0"; (trap '' TERM; sleep 100 & sleep 100 & wait) & sleep 100 & wait`, "$HOME")
	for end := time.Now().Add(20 * time.Second); !strings.Contains(out.text(), "$HOME\n"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no output: %q", out.text())
		}
	}
	if !strings.Contains(out.text(), "X=a b\n") || strings.Contains(out.text(), "USER=") {
		t.Errorf("environment: %q", out.text())
	}
	var v reaper.Vitals
	for end := time.Now().Add(20 * time.Second); v.Usage["maxproc"] != 5; time.Sleep(10 * time.Millisecond) {
		v = r.Vitals()["svc-1"]
		if time.Now().After(end) {
			t.Fatalf("vitals %+v", v)
		}
	}
	p, ok, err := bsdproc.ProcessOf(v.Pid)
	if err != nil || !ok || p.Command != "sh" {
		t.Errorf("process %d: %+v, %v, %v", v.Pid, p, ok, err)
	}
	rules, err := racct.JailRules()
	if err != nil || !slices.ContainsFunc(rules, func(rule racct.Rule) bool { return strings.HasPrefix(rule.Jail, tenantJail+".") }) {
		t.Errorf("no rules of its leaf: %v, %v", rules, err)
	}
	res := stop()
	if res.Outcome != job.Cancelled || !res.Cleanup.Proven || res.Cleanup.Survivors != 0 || res.Cleanup.Killed < 2 {
		t.Errorf("end: %+v", res)
	}
	if left := inJails(t); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	if len(r.Vitals()) != 0 {
		t.Error("an ended service has vitals")
	}
}

// TestHostDaemonizingService: a program that puts itself into the background, as daemon(8) does it, has ended, and what it left
// goes with it.
func TestHostDaemonizingService(t *testing.T) {
	r := host(t)
	spec := job.Spec{Tenant: "alice", Mode: job.Program, Cwd: "/", Service: "svc-1", Argv: [][]byte{
		[]byte("/usr/sbin/daemon"), []byte("-f"), []byte("/bin/sleep"), []byte("100")}}
	res, err := r.Run(t.Context(), spec, &output{})
	if err != nil || res.Outcome != job.Exited || !res.Cleanup.Proven || res.Cleanup.Killed < 1 {
		t.Errorf("got %+v, %v", res, err)
	}
	if left := inJails(t); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}
