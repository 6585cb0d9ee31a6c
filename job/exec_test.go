package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/job"
	"playground/ring"
)

func TestExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job.NewManager(runnerFunc(func(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
			if spec.Timeout != 45*time.Second || spec.Mode != job.Login {
				t.Errorf("the runner got %+v", spec)
			}
			out.Write(ring.Stdout, []byte("0123456789"))
			out.Write(ring.Stderr, []byte("oops"))
			time.Sleep(1500 * time.Millisecond)
			return exited(3), nil
		}), job.DefaultLimits(), &memory{})
		got, err := m.Exec(t.Context(), job.Spec{Tenant: "alice", Command: []byte("x")}, 3, 2)
		if err != nil {
			t.Fatal(err)
		}
		want := job.Execution{
			Result: exited(3),
			Stdout: ring.Captured{Head: []byte("012"), Tail: []byte("89"), Total: 10},
			Stderr: ring.Captured{Head: []byte("oop"), Tail: []byte("s"), Total: 4},
		}
		want.StdoutBytes, want.StderrBytes, want.DurationMS = 10, 4, 1500
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("execution (-want +got):\n%s", diff)
		}
		if c := m.Counts("alice"); c != (job.Counts{}) {
			t.Errorf("afterwards the tenant has %+v", c)
		}
	})
}

func TestExecTimeout(t *testing.T) {
	tests := []struct {
		asked, want time.Duration
	}{{0, 45 * time.Second}, {time.Second, time.Second}, {280 * time.Second, 280 * time.Second}}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			m := job.NewManager(newScript(), job.DefaultLimits(), &memory{})
			spec := command("alice", "sleep")
			spec.Timeout = tt.asked
			got, err := m.Exec(t.Context(), spec, 0, 0)
			if err != nil || got.Outcome != job.TimedOut || got.DurationMS != tt.want.Milliseconds() {
				t.Errorf("timeout %v gives %+v, %v", tt.asked, got, err)
			}
		})
	}
}

// TestExecCallerGoesAway shows that a caller's end cancels the command, and that Exec still waits for its clean-up.
func TestExecCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan job.Execution, 1)
		go func() {
			e, err := m.Exec(ctx, command("alice", "deaf"), 100, 0)
			if err != nil {
				t.Error(err)
			}
			returned <- e
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		r := s.get(t, "deaf")
		if cause := context.Cause(r.ctx); !errors.Is(cause, job.ErrCancelled) {
			t.Errorf("the runner's cause is %v", cause)
		}
		if c := m.Counts("alice"); c.Active != 1 || len(returned) != 0 {
			t.Errorf("during clean-up the tenant has %+v", c)
		}
		r.print("last words")
		r.end <- ended(r.ctx)
		e := <-returned
		if e.Outcome != job.Cancelled || string(e.Stdout.Head) != "last words" {
			t.Errorf("execution is %+v", e)
		}
		if _, err := m.Exec(ctx, command("alice", "next"), 0, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that is gone already gets %v", err)
		}
	})
}

// TestExecFull shows that a command is ended once more output could not matter.
func TestExecFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job.NewManager(runnerFunc(func(ctx context.Context, spec job.Spec, out job.Output) (job.Result, error) {
			for ctx.Err() == nil {
				out.Write(ring.Stdout, []byte("yes\n"))
				time.Sleep(time.Millisecond)
			}
			return ended(ctx), nil
		}), job.DefaultLimits(), &memory{})
		e, err := m.Exec(t.Context(), command("alice", "yes"), 10, 0)
		if err != nil || !e.Stdout.Truncated() || string(e.Stdout.Head) != "yes\nyes\nye" || e.StdoutBytes != 12 {
			t.Errorf("execution is %+v, %v", e, err)
		}
	})
}

func TestChecks(t *testing.T) {
	limits := job.DefaultLimits()
	never := runnerFunc(func(context.Context, job.Spec, job.Output) (job.Result, error) {
		t.Error("a bad command was run")
		return exited(0), nil
	})
	long := strings.Repeat("x", limits.CommandBytes)
	tests := []struct {
		name string
		edit func(*job.Spec)
		kind fault.Kind
		text string // in message or hint
	}{
		{"no tenant", func(s *job.Spec) { s.Tenant = "" }, fault.Invalid, "tenant"},
		{"no command", func(s *job.Spec) { s.Command = nil }, fault.Invalid, "empty"},
		{"unknown mode", func(s *job.Spec) { s.Mode = "root" }, fault.Invalid, `"root"`},
		{"long command", func(s *job.Spec) { s.Command = []byte(long + "y") }, fault.TooLarge, "65537 bytes, over the limit of 65536"},
		{"long arguments", func(s *job.Spec) { s.Args = [][]byte{[]byte(long)} }, fault.TooLarge, "65537 bytes"},
		{"long input", func(s *job.Spec) { s.Stdin = make([]byte, limits.StdinBytes+1) }, fault.TooLarge, "over the limit of 3145728"},
		{"NUL in the command", func(s *job.Spec) { s.Command = []byte("a\x00b") }, fault.Invalid, "NUL byte, at offset 1"},
		{"NUL in an argument", func(s *job.Spec) { s.Args = [][]byte{nil, {0}} }, fault.Invalid, "NUL"},
		{"NUL in the folder", func(s *job.Spec) { s.Cwd = "/a\x00" }, fault.Invalid, "NUL"},
		{"negative timeout", func(s *job.Spec) { s.Timeout = -1 }, fault.Invalid, "negative"},
		{"endless timeout", func(s *job.Spec) { s.Timeout = 25 * time.Hour }, fault.Invalid, "limit of"},
	}
	m := job.NewManager(never, limits, &memory{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := command("alice", "x")
			tt.edit(&spec)
			_, startErr := m.Start(spec)
			_, execErr := m.Exec(t.Context(), spec, 0, 0)
			for _, err := range []error{startErr, execErr} {
				if !errors.Is(err, tt.kind) || !strings.Contains(err.Error()+fault.HintOf(err), tt.text) {
					t.Errorf("error is %v (%q)", err, fault.KindOf(err))
				}
			}
		})
	}
	spec := command("alice", "x")
	spec.Timeout = 281 * time.Second
	_, err := m.Exec(t.Context(), spec, 0, 0)
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "4m40s") || !strings.Contains(fault.HintOf(err), "job_exec") {
		t.Errorf("a timeout over the limit gives %v, %q", err, fault.HintOf(err))
	}
	for _, keep := range [][2]int{{-1, 0}, {0, -1}, {1 << 30, 0}, {0, 1 << 30}, {4 << 20, 4 << 20}} {
		if _, err := m.Exec(t.Context(), command("alice", "x"), keep[0], keep[1]); !errors.Is(err, fault.Invalid) {
			t.Errorf("keeping %v gives %v", keep, err)
		}
	}
	if s := m.Status(); s.Active != 0 || s.Retained != 0 || len(s.PerTenant) != 0 {
		t.Errorf("refused commands left %+v", s)
	}
}

// TestBiggestAreAdmitted shows that the limits themselves are allowed.
func TestBiggestAreAdmitted(t *testing.T) {
	limits := job.DefaultLimits()
	m := job.NewManager(runnerFunc(func(context.Context, job.Spec, job.Output) (job.Result, error) {
		return exited(0), nil
	}), limits, &memory{})
	spec := job.Spec{Tenant: "alice", Mode: job.Clean, Timeout: limits.ExecMax, Stdin: make([]byte, limits.StdinBytes)}
	spec.Command = []byte(strings.Repeat("x", limits.CommandBytes))
	if _, err := m.Exec(t.Context(), spec, limits.StdinBytes+1, 0); err != nil {
		t.Error(err)
	}
}

func TestRefusedStart(t *testing.T) {
	refusal := fault.New(fault.NotOpen, "the session is not open").WithHint("call open_session")
	secret := errors.New("open /var/db/playground/x: no space")
	tests := []struct {
		name string
		err  error
		text string
		hint []string
	}{
		{"with a fault", refusal, "the session is not open", []string{"call open_session"}},
		{"with a host's error", secret, "the command could not be started", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := job.NewManager(runnerFunc(func(context.Context, job.Spec, job.Output) (job.Result, error) {
					return job.Result{}, tt.err
				}), job.DefaultLimits(), &memory{})
				if _, err := m.Exec(t.Context(), command("alice", "x"), 0, 0); !errors.Is(err, tt.err) {
					t.Errorf("Exec gives %v", err)
				}
				st := start(t, m, "alice", "x")
				page, err := m.Poll(t.Context(), "alice", st.JobID, 0, time.Second)
				if err != nil || page.Result == nil {
					t.Fatalf("page is %+v, %v", page, err)
				}
				want := job.Result{Outcome: job.Failed, Error: tt.text, Hints: tt.hint, Cleanup: job.Cleanup{Proven: true}}
				if diff := cmp.Diff(want, *page.Result); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if m.Lost() != nil {
					t.Error("a refused start lost proof")
				}
			})
		})
	}
}

// TestEndsBeforeStart shows the outcome of a command whose time was over before the Runner could start it.
func TestEndsBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job.NewManager(runnerFunc(func(ctx context.Context, _ job.Spec, _ job.Output) (job.Result, error) {
			<-ctx.Done()
			return job.Result{}, fault.Wrap(fault.Unavailable, ctx.Err(), "cannot reach jaild")
		}), job.DefaultLimits(), &memory{})
		e, err := m.Exec(t.Context(), command("alice", "x"), 0, 0)
		if err != nil || e.Outcome != job.TimedOut || !e.Cleanup.Proven {
			t.Errorf("execution is %+v, %v", e, err)
		}
		st := start(t, m, "alice", "x")
		if _, err := m.Cancel("alice", st.JobID); err != nil {
			t.Error(err)
		}
		page, err := m.Poll(t.Context(), "alice", st.JobID, 0, time.Second)
		if err != nil || page.Result == nil || page.Result.Outcome != job.Cancelled || page.Result.Error != "" {
			t.Errorf("page is %+v, %v", page, err)
		}
	})
}

func TestExecutionJSON(t *testing.T) {
	in := job.Execution{Result: exited(0), Stdout: ring.Captured{Head: []byte("hi"), Total: 2}}
	text, err := json.Marshal(in)
	if err != nil || !strings.HasPrefix(string(text), `{"result":{"outcome":"exited","exit_code":0,`) {
		t.Errorf("JSON is %s, %v", text, err)
	}
	var got job.Execution
	if err := json.Unmarshal(text, &got); err != nil || !cmp.Equal(in, got) {
		t.Errorf("JSON comes back as %+v, %v", got, err)
	}
}

func TestLimitsValidate(t *testing.T) {
	if err := job.DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	tests := []struct {
		name string
		edit func(*job.Limits)
	}{
		{"active_per_tenant", func(l *job.Limits) { l.ActivePerTenant = 0 }},
		{"active_per_host", func(l *job.Limits) { l.ActivePerHost = -1 }},
		{"retained_per_tenant", func(l *job.Limits) { l.RetainedPerTenant = 0 }},
		{"retained_per_host", func(l *job.Limits) { l.RetainedPerHost = 0 }},
		{"ring_bytes", func(l *job.Limits) { l.RingBytes = 3 }},
		{"ring_chunks", func(l *job.Limits) { l.RingChunks = 0 }},
		{"page_bytes", func(l *job.Limits) { l.PageBytes = 3 }},
		{"command_bytes", func(l *job.Limits) { l.CommandBytes = 0 }},
		{"stdin_bytes", func(l *job.Limits) { l.StdinBytes = 0 }},
		{"ttl", func(l *job.Limits) { l.TTL = 0 }},
		{"exec_default", func(l *job.Limits) { l.ExecDefault = -1 }},
		{"exec_max", func(l *job.Limits) { l.ExecMax = 0 }},
		{"exec_max", func(l *job.Limits) { l.ExecMax = time.Second }},
		{"job_max", func(l *job.Limits) { l.JobMax = 0 }},
		{"wait_max", func(l *job.Limits) { l.WaitMax = 0 }},
	}
	for _, tt := range tests {
		l := job.DefaultLimits()
		tt.edit(&l)
		if err := l.Validate(); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.name) {
			t.Errorf("a bad %s gives %v", tt.name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("NewManager took limits of zero")
		}
	}()
	job.NewManager(newScript(), job.Limits{}, &memory{})
}
