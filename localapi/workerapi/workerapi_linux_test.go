package workerapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"playground/confine"
	"playground/confine/keeper"
	"playground/fault"
	"playground/internal/workertest"
	"playground/localapi"
	"playground/localapi/workerapi"
	"playground/procfs"
)

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }

// A world is a daemon with workers, and a client of it.
type world struct {
	keeper *keeper.Keeper
	client *workerapi.Client
	socket string

	mu     sync.Mutex
	events []keeper.Event
	lost   []string
}

func (w *world) seen(kind keeper.EventKind) []keeper.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []keeper.Event
	for _, e := range w.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

func newWorld(t testing.TB, behaviour string, change ...func(*keeper.Options)) *world {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	dir, err := os.MkdirTemp("", "wa") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	w := &world{socket: filepath.Join(dir, "s")}
	o := keeper.Options{
		Program: workertest.Program(t, behaviour), UIDBase: 910_000, Deadline: 10 * time.Second,
		Seen: func(e keeper.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
		Lost: func(left []confine.Leftover, reason string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lost = append(w.lost, reason)
		},
	}
	for _, f := range change {
		f(&o)
	}
	if w.keeper, err = keeper.New(o); err != nil {
		t.Fatal(err)
	}
	access := localapi.Uids(uint32(os.Geteuid()))
	service := workerapi.NewService(w.keeper)
	server := localapi.Server(localapi.Handler(service.Routes(access), localapi.Options{}))
	listener, err := localapi.Listen(w.socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	w.client = workerapi.NewClient(w.socket)
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := service.Close(ctx); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
		if len(w.lost) > 0 {
			t.Errorf("lost: %v", w.lost)
		}
		goleak.VerifyNone(t, leaks, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
	})
	return w
}

func (w *world) start(t testing.TB, run string) *workerapi.Worker {
	t.Helper()
	worker, err := w.client.Start(t.Context(), workerapi.Request{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		worker.Kill()
		worker.Doors.Close()
		worker.Stdin.Close()
		worker.Stdout.Close()
		worker.Wait(context.Background())
	})
	return worker
}

func gone(pid int) bool {
	_, alive := procfs.StartTime(pid)
	return !alive
}

// await waits for what must come soon.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// A worker from its start to an end of its own, through the socket.
func TestLife(t *testing.T) {
	w := newWorld(t, workertest.Good)
	worker := w.start(t, "th_1")
	if err := worker.Report.Err(); err != nil {
		t.Error(err)
	}
	if len(worker.Attempts) == 0 || worker.PID <= 1 || gone(worker.PID) {
		t.Errorf("pid %d, %d attempts", worker.PID, len(worker.Attempts))
	}
	fmt.Fprintln(worker.Stdin, "doors")
	for _, word := range []string{"one", "two"} { // it echoes there
		fmt.Fprintln(worker.Doors, word)
		line, err := bufio.NewReader(worker.Doors).ReadString('\n')
		if strings.TrimSpace(line) != word || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
	}
	worker.Doors.(*net.UnixConn).CloseWrite()
	fmt.Fprintln(worker.Stdin, "exit")
	exit, err := worker.Wait(t.Context())
	if err != nil || exit.Status != 7 || exit.Signal != "" || !exit.Cleanup.Proven || exit.Cleanup.Survivors != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if again, err := worker.Wait(t.Context()); again != exit || err != nil {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	if !gone(worker.PID) {
		t.Error("it is still there")
	}
	if out, err := io.ReadAll(worker.Stdout); len(out) > 0 || err != nil {
		t.Errorf("output %q, %v", out, err)
	}
	ended := w.seen(keeper.Ended)
	if len(ended) != 1 || ended[0].Run != "th_1" || ended[0].PID != worker.PID || len(w.seen(keeper.Started)) != 1 {
		t.Errorf("events %+v", w.events)
	}
}

// A run has one worker; once that has ended it may get another, as one that is resumed does.
func TestDoubleStart(t *testing.T) {
	w := newWorld(t, workertest.Good)
	worker := w.start(t, "th_1")
	if _, err := w.client.Start(t.Context(), workerapi.Request{Run: "th_1"}); !errors.Is(err, fault.Exists) {
		t.Errorf("got %v", err)
	}
	if gone(worker.PID) {
		t.Error("the first is gone")
	}
	worker.Kill()
	if _, err := worker.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.start(t, "th_1")
}

// The connection is the worker's life: an order, the caller's end, and the caller's death end it.
func TestCallerEnds(t *testing.T) {
	w := newWorld(t, workertest.Good)
	worker := w.start(t, "th_killed")
	worker.Kill()
	worker.Kill()
	exit, err := worker.Wait(t.Context())
	if err != nil || exit.Signal != "SIGKILL" || exit.Status != -1 || !exit.Cleanup.Proven {
		t.Errorf("exit %+v, %v", exit, err)
	}

	conn, err := localapi.NewClient(w.socket).Upgrade(t.Context(), workerapi.Path, workerapi.Request{Run: "th_vanished"})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close() // before it took the worker over
	await(t, "the end of a worker whose caller vanished", func() bool { return len(w.seen(keeper.Ended)) == 2 })
	if n := w.keeper.Count(); n != 0 {
		t.Errorf("%d workers are left", n)
	}
}

// A caller that vanishes while its worker is started.
func TestCallerVanishesEarly(t *testing.T) {
	w := newWorld(t, workertest.Silent)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := w.client.Start(ctx, workerapi.Request{Run: "th_1"})
		done <- err
	}()
	await(t, "a start", func() bool { return w.keeper.Count() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	await(t, "the end of the start", func() bool { return w.keeper.Count() == 0 && len(w.seen(keeper.Refused)) == 1 })
}

// A layer that does not hold reaches the caller by name, and leaves nothing.
func TestDenied(t *testing.T) {
	for _, behaviour := range []string{workertest.Lies, workertest.Floods, workertest.Forked, workertest.Dies} {
		t.Run(behaviour, func(t *testing.T) {
			w := newWorld(t, behaviour)
			_, err := w.client.Start(t.Context(), workerapi.Request{Run: "th_1"})
			if !errors.Is(err, fault.Denied) {
				t.Errorf("got %v", err)
			}
			if behaviour == workertest.Lies && !strings.Contains(err.Error(), "syscalls (") {
				t.Errorf("the refusal names no layer: %v", err)
			}
			if n := w.keeper.Count(); n != 0 {
				t.Errorf("%d workers are left", n)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	w := newWorld(t, workertest.Good, func(o *keeper.Options) {
		o.Admit = func() error { return fault.New(fault.ProofLost, "no") }
	})
	for _, run := range []string{"", "a b", "a\nb", strings.Repeat("x", 200)} {
		if _, err := w.client.Start(t.Context(), workerapi.Request{Run: run}); !errors.Is(err, fault.Invalid) {
			t.Errorf("run %q: %v", run, err)
		}
	}
	if _, err := w.client.Start(t.Context(), workerapi.Request{Run: "x", Bounds: confine.Bounds{Threads: 1}}); !errors.Is(err, fault.Invalid) {
		t.Errorf("too few threads: %v", err)
	}
	if _, err := w.client.Start(t.Context(), workerapi.Request{Run: "x"}); !errors.Is(err, fault.ProofLost) {
		t.Errorf("with a lost proof: %v", err)
	}
	// Without an upgrade there is no worker.
	err := localapi.NewClient(w.socket).Do(t.Context(), http.MethodPost, workerapi.Path, workerapi.Request{Run: "x"}, nil)
	if err == nil {
		t.Error("a plain request got an answer")
	}
}

// A worker of a daemon that is stopping: either it is never started, or it is ended with the rest.
func TestStopping(t *testing.T) {
	w := newWorld(t, workertest.Good)
	running := w.start(t, "th_running")
	starting := make(chan error)
	go func() {
		worker, err := w.client.Start(t.Context(), workerapi.Request{Run: "th_late"})
		if err == nil {
			_, err = worker.Wait(t.Context())
			for _, f := range []io.Closer{worker.Doors, worker.Stdin, worker.Stdout} {
				f.Close()
			}
		}
		starting <- err
	}()
	await(t, "a second start", func() bool { return w.keeper.Count() == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := w.keeper.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := <-starting; err != nil && !errors.Is(err, fault.Unavailable) {
		t.Errorf("the late one: %v", err)
	}
	if exit, err := running.Wait(t.Context()); err != nil || exit.Signal != "SIGKILL" || !exit.Cleanup.Proven {
		t.Errorf("the running one: %+v, %v", exit, err)
	}
	if _, err := w.client.Start(t.Context(), workerapi.Request{Run: "th_3"}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("after the stop: %v", err)
	}
}

// A start that hangs does not hold up a daemon that stops.
func TestStoppingEarly(t *testing.T) {
	w := newWorld(t, workertest.Silent)
	starting := make(chan error)
	go func() {
		_, err := w.client.Start(t.Context(), workerapi.Request{Run: "th_1"})
		starting <- err
	}()
	await(t, "a start", func() bool { return w.keeper.Count() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // less than a start may take
	defer cancel()
	if err := w.keeper.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := <-starting; !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

// As many as there may be, all at once, each with ids of its own where there are such; then one too many.
func TestLimit(t *testing.T) {
	w := newWorld(t, workertest.Good)
	workers := make([]*workerapi.Worker, keeper.Limit)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			worker, err := w.client.Start(t.Context(), workerapi.Request{Run: fmt.Sprintf("th_%d", i)})
			if err != nil {
				t.Error(err)
				return
			}
			workers[i] = worker
		})
	}
	all.Wait()
	ids := make(map[string]bool)
	for _, worker := range workers {
		if worker == nil {
			continue
		}
		s, err := procfs.StatusOf(fmt.Sprint(worker.PID))
		if err != nil {
			t.Fatal(err)
		}
		ids[s.Words("Uid")] = true
	}
	if want := keeper.Limit; os.Geteuid() == 0 && len(ids) != want {
		t.Errorf("%d different ids, want %d", len(ids), want)
	}
	if _, err := w.client.Start(t.Context(), workerapi.Request{Run: "th_more"}); !errors.Is(err, fault.Limit) {
		t.Errorf("one too many: %v", err)
	}
	for _, worker := range workers {
		if worker == nil {
			continue
		}
		worker.Kill()
		if exit, err := worker.Wait(t.Context()); err != nil || !exit.Cleanup.Proven {
			t.Errorf("exit %+v, %v", exit, err)
		}
		for _, f := range []io.Closer{worker.Doors, worker.Stdin, worker.Stdout} {
			f.Close()
		}
	}
	w.start(t, "th_again")
}

// The descriptors that a caller gets are those three, and no other reaches it or stays with the daemon.
func TestDescriptors(t *testing.T) {
	w := newWorld(t, workertest.Good)
	before := descriptors(t)
	worker := w.start(t, "th_1")
	for _, f := range []io.Closer{worker.Doors, worker.Stdin, worker.Stdout} {
		f.Close()
	}
	worker.Kill()
	worker.Wait(t.Context())
	await(t, "the same number of descriptors", func() bool { return descriptors(t) <= before+1 }) // the client's idle connection
}

func descriptors(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// The end of the daemon is the end of its workers, even if nothing of it had the time to do anything.
func TestDaemonKilled(t *testing.T) {
	if os.Getenv("PLAYGROUND_KEEPER_CHILD") == "1" {
		w := newWorld(t, workertest.Good)
		fmt.Printf("PID %d\n", w.start(t, "th_1").PID)
		unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	proc, out := childProcess(t, exe)
	var pid int
	if _, err := fmt.Fscanf(out, "PID %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	state, err := proc.Wait()
	if err != nil || state.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Fatalf("%v, %v", state, err)
	}
	await(t, "the worker's end", func() bool {
		s, err := procfs.StatusOf(fmt.Sprint(pid))
		return err != nil || strings.HasPrefix(s.Words("State"), "Z")
	})
}

func childProcess(t *testing.T, exe string) (*os.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	proc, err := os.StartProcess(exe, []string{exe, "-test.run=^TestDaemonKilled$"}, &os.ProcAttr{
		Env: append(os.Environ(), "PLAYGROUND_KEEPER_CHILD=1", "TMPDIR="+t.TempDir()), Files: []*os.File{nil, w, os.Stderr},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return proc, r
}

// BenchmarkStart is the time from the request to the verified worker that waits to be told something.
func BenchmarkStart(b *testing.B) {
	w := newWorld(b, workertest.Good)
	for b.Loop() {
		worker, err := w.client.Start(b.Context(), workerapi.Request{Run: "th_bench"})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		worker.Kill()
		worker.Wait(b.Context())
		for _, f := range []io.Closer{worker.Doors, worker.Stdin, worker.Stdout} {
			f.Close()
		}
		b.StartTimer()
	}
}
