package jobapi_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"playground/fault"
	"playground/internal/socktest"
	"playground/job"
	"playground/localapi"
	"playground/localapi/jobapi"
	"playground/ring"
	"playground/sandbox"
)

func TestMain(m *testing.M) {
	// net/http lingers half a second on a connection whose request it refused, and Close does not wait for that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

var _ sandbox.Jobs = (*jobapi.Client)(nil)

// fake records what arrives and answers with what it was given.
type fake struct {
	execution job.Execution
	status    job.Status
	page      job.Page
	host      job.HostStatus
	cleaned   jobapi.Cleaned
	usage     jobapi.Usage
	err       error
	got       []any
	block     chan struct{} // not nil: Exec waits for its context and closes it
}

func (f *fake) Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error) {
	f.got = []any{"exec", spec, head, tail}
	if f.block != nil {
		<-ctx.Done()
		close(f.block)
	}
	return f.execution, f.err
}

func (f *fake) Start(spec job.Spec) (job.Status, error) {
	f.got = []any{"start", spec}
	return f.status, f.err
}

func (f *fake) Poll(_ context.Context, tenant, id string, cursor int64, wait time.Duration) (job.Page, error) {
	f.got = []any{"poll", tenant, id, cursor, wait}
	return f.page, f.err
}

func (f *fake) Cancel(tenant, id string) (job.Status, error) {
	f.got = []any{"cancel", tenant, id}
	return f.status, f.err
}

func (f *fake) DropTenant(_ context.Context, tenant string) error {
	f.got = []any{"drop", tenant}
	return f.err
}

func (f *fake) Status() job.HostStatus {
	f.got = []any{"status"}
	return f.host
}

func (f *fake) Ack() error {
	f.got = []any{"ack"}
	return f.err
}

func (f *fake) Clean(context.Context) (jobapi.Cleaned, error) {
	f.got = []any{"clean"}
	return f.cleaned, f.err
}

func (f *fake) Usage(context.Context) (jobapi.Usage, error) {
	f.got = []any{"usage"}
	return f.usage, f.err
}

// same gives both classes of callers one access.
func same(access localapi.Access) jobapi.Access {
	return jobapi.Access{Callers: access, Operators: access}
}

func serve(t testing.TB, jobs jobapi.Jobs, access jobapi.Access) (*jobapi.Client, *localapi.Client) {
	t.Helper()
	host, _ := jobs.(jobapi.Host) // nil where a test has no use for it
	path := socktest.Serve(t, localapi.Handler(jobapi.Routes(jobs, host, access), localapi.Options{MaxBody: jobapi.BodyBytes(job.DefaultLimits())}))
	client, raw := jobapi.NewClient(path), localapi.NewClient(path)
	t.Cleanup(func() {
		client.Disconnect()
		raw.Close()
	})
	return client, raw
}

func me() jobapi.Access { return same(localapi.Uids(uint32(os.Geteuid()))) }

func TestEveryCallArrivesAndReturns(t *testing.T) {
	code := 3
	binary := []byte("a\x00\xff\xfe<&>")
	spec := job.Spec{Tenant: "ann", Command: binary, Args: [][]byte{binary, {}}, Mode: job.Clean, Cwd: "/tmp", Stdin: binary, Timeout: 1500 * time.Millisecond}
	result := job.Result{Outcome: job.Exited, ExitCode: &code, Hints: []string{"disk full"}, StdoutBytes: 1 << 40, Cleanup: job.Cleanup{Killed: 2, Proven: true}}
	f := &fake{
		execution: job.Execution{Result: result, Stdout: ring.Captured{Head: binary, Tail: []byte("t"), Total: 1 << 40}},
		status:    job.Status{JobID: "job-01", State: job.Running},
		page: job.Page{JobID: "job-01", State: job.Terminal, Chunks: []ring.Chunk{{Sequence: 1 << 60, Stream: ring.Stderr, Data: binary}},
			NextCursor: 1<<60 + 8, Gap: true, DroppedBytes: 1 << 60, Result: &result},
		host: job.HostStatus{Active: 1, Retained: 2, PerTenant: map[string]job.Counts{"ann": {Active: 1, Retained: 2}},
			Lost: &job.Lost{Since: time.Unix(1700000000, 1).UTC(), Tenant: "bob", JobID: "job-02", Pids: []job.Leftover{{Pid: 5, Start: 1 << 63}}}},
	}
	c, _ := serve(t, f, me())
	ctx := context.Background()
	none := func(err error) (any, error) { return nil, err }
	tests := []struct {
		call func() (any, error)
		got  []any
		want any
	}{
		{func() (any, error) { return c.Exec(ctx, spec, 10, 20) }, []any{"exec", spec, 10, 20}, f.execution},
		{func() (any, error) { return c.Start(ctx, spec) }, []any{"start", spec}, f.status},
		{func() (any, error) { return c.Poll(ctx, "ann", "job-01", 1<<60, time.Microsecond) },
			[]any{"poll", "ann", "job-01", int64(1 << 60), time.Millisecond}, f.page},
		{func() (any, error) { return c.Cancel(ctx, "ann", "job-01") }, []any{"cancel", "ann", "job-01"}, f.status},
		{func() (any, error) { return none(c.DropTenant(ctx, "ann")) }, []any{"drop", "ann"}, nil},
		{func() (any, error) { return c.Status(ctx) }, []any{"status"}, f.host},
		{func() (any, error) { return none(c.Ack(ctx)) }, []any{"ack"}, nil},
	}
	for _, tt := range tests {
		f.got, f.err = nil, nil
		out, err := tt.call()
		if err != nil {
			t.Errorf("%v: %v", tt.got[0], err)
		}
		if diff := cmp.Diff(tt.got, f.got); diff != "" {
			t.Errorf("arguments -want +got\n%s", diff)
		}
		if diff := cmp.Diff(tt.want, out); diff != "" {
			t.Errorf("%v: answer -want +got\n%s", tt.got[0], diff)
		}
		if tt.got[0] == "status" { // cannot fail
			continue
		}
		f.err = fault.New(fault.ProofLost, "no").WithHint("playground ack")
		if _, err := tt.call(); !errors.Is(err, fault.ProofLost) || fault.HintOf(err) != "playground ack" {
			t.Errorf("%v: error %v", tt.got[0], err)
		}
	}
}

// TestStdinSizes: nil and empty input are both an immediate end of file, so they may become one another, but a
// given byte must arrive.
func TestStdinSizes(t *testing.T) {
	f := &fake{}
	c, _ := serve(t, f, me())
	limits := job.DefaultLimits()
	for _, n := range []int{0, 1, limits.StdinBytes} {
		spec := job.Spec{Stdin: bytes.Repeat([]byte{0xff}, n), Command: bytes.Repeat([]byte("x"), limits.CommandBytes)}
		if _, err := c.Exec(context.Background(), spec, 0, 0); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if got := f.got[1].(job.Spec); !bytes.Equal(got.Stdin, spec.Stdin) || !bytes.Equal(got.Command, spec.Command) {
			t.Errorf("%d bytes became %d", n, len(got.Stdin))
		}
	}
	_, err := c.Exec(context.Background(), job.Spec{Stdin: make([]byte, 2*limits.StdinBytes)}, 0, 0)
	if !errors.Is(err, fault.TooLarge) {
		t.Errorf("error %v, want too large", err)
	}
}

func TestBadRequests(t *testing.T) {
	_, raw := serve(t, &fake{}, me())
	for name, tt := range map[string]struct {
		path string
		in   any
	}{
		"negative wait": {"/v1/jobs/j/poll", map[string]any{"wait_ms": -1}},
		"endless wait":  {"/v1/jobs/j/poll", map[string]any{"wait_ms": int64(1) << 62}},
		"unknown field": {"/v1/jobs/j/cancel", map[string]any{"tennant": "a"}},
		"bad base64":    {"/v1/jobs", map[string]any{"command": "%%%"}},
		"text cursor":   {"/v1/jobs/j/poll", map[string]any{"cursor": "0"}},
		"no body":       {"/v1/exec", nil},
	} {
		if err := raw.Do(context.Background(), "POST", tt.path, tt.in, nil); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: error %v, want invalid", name, err)
		}
	}
}

func TestVanishedCallerCancelsExec(t *testing.T) {
	f := &fake{block: make(chan struct{})}
	c, _ := serve(t, f, me())
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Exec(ctx, job.Spec{}, 0, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	select {
	case <-f.block:
	case <-time.After(10 * time.Second):
		t.Fatal("the command still runs")
	}
}

func TestEveryRouteNeedsAccess(t *testing.T) {
	for _, access := range []localapi.Access{nil, localapi.Uids(uint32(os.Geteuid()) + 1)} {
		f := &fake{}
		_, raw := serve(t, f, same(access))
		for _, route := range jobapi.Routes(f, f, same(access)) {
			if err := raw.Do(context.Background(), route.Method, route.Path, nil, nil); !errors.Is(err, fault.Denied) {
				t.Errorf("%s %s: error %v, want denied", route.Method, route.Path, err)
			}
		}
		if f.got != nil {
			t.Errorf("%v was reached", f.got)
		}
	}
}

// The transport's user, who may run commands, may not clean.
func TestCleanIsForOperators(t *testing.T) {
	mine, others := localapi.Uids(uint32(os.Geteuid())), localapi.Uids(uint32(os.Geteuid())+1)
	f := &fake{}
	c, _ := serve(t, f, jobapi.Access{Callers: mine, Operators: others})
	if _, err := c.Clean(context.Background()); !errors.Is(err, fault.Denied) || f.got != nil {
		t.Errorf("clean by the transport's user: %v, %v", f.got, err)
	}
	c, _ = serve(t, f, jobapi.Access{Callers: others, Operators: mine})
	if _, err := c.Start(context.Background(), job.Spec{}); !errors.Is(err, fault.Denied) {
		t.Errorf("start: %v", err)
	}
}

// What was done is told although not all could be, and empty lists are lists.
func TestHostCalls(t *testing.T) {
	f := &fake{usage: jobapi.Usage{"ann": {"maxproc": 3}}, cleaned: jobapi.Cleaned{Jails: []string{"pg-ann.j1"}, Left: []string{"pg-bob.j2"}}}
	c, _ := serve(t, f, me())
	usage, err := c.Usage(context.Background())
	if diff := cmp.Diff(f.usage, usage); diff != "" || err != nil {
		t.Errorf("usage: %v, -want +got\n%s", err, diff)
	}
	f.err = fault.New(fault.ProofLost, "one jail is not empty")
	if _, err := c.Usage(context.Background()); !errors.Is(err, fault.ProofLost) {
		t.Errorf("usage: %v", err)
	}
	cleaned, err := c.Clean(context.Background())
	want := jobapi.Cleaned{Jails: f.cleaned.Jails, Limits: []string{}, Left: f.cleaned.Left, Error: "one jail is not empty"}
	if diff := cmp.Diff(want, cleaned); diff != "" || err != nil {
		t.Errorf("clean: %v, -want +got\n%s", err, diff)
	}
	c, _ = serve(t, &fake{}, me())
	if usage, err := c.Usage(context.Background()); err != nil || usage == nil {
		t.Errorf("no usage: %v, %v", usage, err)
	}
}

func BenchmarkExec(b *testing.B) {
	for name, n := range map[string]int{"true": 0, "stdin 3MiB": 3 << 20} {
		b.Run(name, func(b *testing.B) {
			c, _ := serve(b, &fake{}, me())
			spec := job.Spec{Tenant: "ann", Command: []byte("true"), Mode: job.Login, Stdin: make([]byte, n)}
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				if _, err := c.Exec(context.Background(), spec, 16<<10, 16<<10); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("stdout 3MiB", func(b *testing.B) {
		f := &fake{execution: job.Execution{Stdout: ring.Captured{Head: make([]byte, 3<<20), Total: 3 << 20}}}
		c, _ := serve(b, f, me())
		b.ReportAllocs()
		b.SetBytes(3 << 20)
		for b.Loop() {
			if _, err := c.Exec(context.Background(), job.Spec{}, 3<<20, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPoll(b *testing.B) {
	f := &fake{page: job.Page{Chunks: []ring.Chunk{{Stream: ring.Stdout, Data: make([]byte, 256<<10)}}}}
	c, _ := serve(b, f, me())
	b.ReportAllocs()
	b.SetBytes(256 << 10)
	for b.Loop() {
		if _, err := c.Poll(context.Background(), "ann", "job-1", 0, 0); err != nil {
			b.Fatal(err)
		}
	}
}
