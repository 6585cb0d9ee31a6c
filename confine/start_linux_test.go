package confine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/internal/workertest"
	"playground/procfs"
)

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }

// starts counts the starts of this process.
var starts atomic.Int64

// startFor is a start in this test's shape: root's worker gets ids of its own.
func startFor() Start {
	s := Start{Bounds: Bounds{}.WithDefaults()}
	if os.Geteuid() == 0 {
		s.UID = 900_000 + int(starts.Add(1))
		s.GID = s.UID
	}
	return s
}

func open(t testing.TB, behaviour string) *Program {
	t.Helper()
	p, err := OpenProgram(workertest.Program(t, behaviour))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// end kills a worker and waits until nothing of it is left.
func end(t testing.TB, w *Process) {
	t.Helper()
	w.Kill()
	w.Wait()
	w.CloseFiles()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		left, err := w.Left()
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("left: %v, %v", left, err)
		}
		for _, l := range left {
			l.End()
		}
	}
}

func begin(t testing.TB, p *Program, s Start) *Process {
	t.Helper()
	w, err := p.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, w) })
	return w
}

// A worker of a daemon that is itself closed to its user passes, layer by layer and attempt by attempt.
func TestStart(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	w := begin(t, open(t, workertest.Good), startFor())
	for _, l := range w.Report.Layers {
		t.Logf("%-12s %v %s", l.Name, l.OK, l.Detail)
	}
	made := make(map[Layer]int)
	for _, a := range w.Attempts {
		made[a.Layer]++
		if !a.Pass {
			t.Errorf("%+v", a)
		}
	}
	for _, l := range Layers() {
		if made[l] != attemptsOf(l) {
			t.Errorf("%d attempts of layer %s, the verification wants %d", made[l], l, attemptsOf(l))
		}
	}
	if got := ask(t, w, "hello"); got != "hello" {
		t.Errorf("it answers %q", got)
	}
}

// TestWork: what is permitted is enough for a program with goroutines, timers and garbage.
func TestWork(t *testing.T) {
	w := begin(t, open(t, workertest.Good), startFor())
	if got := ask(t, w, "work"); got != "worked" {
		t.Errorf("it answers %q", got)
	}
}

// ask gives a worker a line and reads one.
func ask(t testing.TB, w *Process, line string) string {
	t.Helper()
	w.Stdout.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintln(w.Stdin, line); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(w.Stdout).ReadString('\n')
	if err != nil {
		state, _ := w.Wait()
		t.Fatalf("no answer to %q: %v; the worker: %v%s", line, err, state, w.lastWords())
	}
	return strings.TrimSpace(answer)
}

// What a worker does wrong at its start is found, and the refusal says what.
func TestRefused(t *testing.T) {
	tests := []struct{ behaviour, want string }{
		{workertest.Dies, "a worker"},
		{workertest.Lies, "root ("},
		{workertest.Floods, "more than 65536 bytes"},
		{workertest.Chatty, "did not report"},
		{workertest.Forked, "lifetime (it is 2 processes)"},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			w, err := open(t, tt.behaviour).Start(t.Context(), startFor())
			if !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v (%s), want a refusal that says %q", err, fault.KindOf(err), tt.want)
			}
			if w == nil {
				t.Fatal("no process to wait for")
			}
			end(t, w)
		})
	}
}

// A liar is told by every layer that it did not put around itself.
func TestLiarLayers(t *testing.T) {
	w, err := open(t, workertest.Lies).Start(t.Context(), startFor())
	if err == nil {
		t.Fatal("it was believed")
	}
	defer end(t, w)
	green := make(map[Layer]bool)
	for _, l := range w.Report.Layers {
		green[l.Name] = l.OK
	}
	// The kernel's are there before the program begins; nothing was tried, so that they are red too.
	for _, l := range []Layer{Network, Root, IPC, Privileges, Syscalls, Limits, Tracing} {
		if green[l] {
			t.Errorf("layer %s is green", l)
		}
	}
}

// A file that the program opened before it was confined is closed by then.
func TestLeak(t *testing.T) {
	begin(t, open(t, workertest.Leaks), startFor())
}

// What the daemon has open without close-on-exec does not stay open in a worker.
func TestInherited(t *testing.T) {
	p := open(t, workertest.Good)
	fd, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0) // no O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	begin(t, p, startFor())
}

// A worker that never reports is killed when the caller gives up.
func TestSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := open(t, workertest.Silent)
	type result struct {
		w   *Process
		err error
	}
	done := make(chan result, 1)
	go func() {
		w, err := p.Start(ctx, startFor())
		done <- result{w, err}
	}()
	for childOf(t, os.Getpid(), "worker") == 0 && len(done) == 0 { // or it has failed by itself, which is told below
		time.Sleep(time.Millisecond)
	}
	cancel()
	r := <-done
	if !errors.Is(r.err, context.Canceled) {
		t.Errorf("got %v", r.err)
	}
	if r.w != nil {
		end(t, r.w)
	}
}

// childOf finds a child by the name of its program.
func childOf(t *testing.T, parent int, name string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil {
			continue
		}
		if of, ok := procfs.Parent(pid); ok && of == parent {
			if exe, err := os.Readlink("/proc/" + e.Name() + "/exe"); err == nil && strings.HasSuffix(exe, "/"+name) {
				return pid
			}
		}
	}
	return 0
}

// What a worker would use up ends it, and nobody else.
func TestUseUp(t *testing.T) {
	tests := []struct {
		order  string
		bounds Bounds
		signal syscall.Signal // 0: any end but a good one
	}{
		{"spin", Bounds{CPUSeconds: 1}, syscall.SIGKILL},
		{"hog", Bounds{DataBytes: 128 << 20}, 0},
		{"threads", Bounds{}, 0},
		{"panic", Bounds{}, 0},
	}
	p := open(t, workertest.Good)
	for _, tt := range tests {
		t.Run(tt.order, func(t *testing.T) {
			s := startFor()
			s.Bounds = tt.bounds.WithDefaults()
			w, err := p.Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(w.Stdin, tt.order)
			go io.Copy(io.Discard, w.Stderr)
			state, err := w.Wait()
			if err != nil {
				t.Fatal(err)
			}
			status := state.Sys().(syscall.WaitStatus)
			if status.Exited() && status.ExitStatus() == 0 || tt.signal != 0 && status.Signal() != tt.signal {
				t.Errorf("it ended with %v", state)
			}
			w.CloseFiles()
			if left, err := w.Left(); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// The daemon's program file: a copy over the one that runs is refused by the kernel, and one that replaces it changes nothing.
func TestUpgrade(t *testing.T) {
	path := workertest.Program(t, workertest.Good)
	p, err := OpenProgram(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w := begin(t, p, startFor())
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); !errors.Is(err, syscall.ETXTBSY) {
		t.Errorf("a live copy: %v", err)
		f.Close()
	}
	if err := os.Rename(workertest.Program(t, workertest.Dies), path); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, w, "still"); got != "still" {
		t.Errorf("it answers %q", got)
	}
	begin(t, p, startFor()) // the one that was opened
	after, err := OpenProgram(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(after.Close)
	broken, err := after.Start(t.Context(), startFor())
	if err == nil {
		t.Error("the new program is not the one that starts after a restart")
	}
	end(t, broken)
}

// A process that runs another program than the daemon opened is refused.
func TestOtherImage(t *testing.T) {
	p := open(t, workertest.Good)
	p.image.Ino++
	w, err := p.Start(t.Context(), startFor())
	if !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "image (it runs another program)") {
		t.Errorf("got %v", err)
	}
	end(t, w)
}

// A program that was written to in place is refused.
func TestChangedInPlace(t *testing.T) {
	path := workertest.Program(t, workertest.Good)
	p, err := OpenProgram(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("x")
	f.Close()
	if _, err := p.Start(t.Context(), startFor()); !errors.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
}
