package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"playground/config"
	"playground/fault"
)

// Who decides about faculty workers runs only where some are defined, before the transport and above what it asks.
func TestFacultyPrograms(t *testing.T) {
	s := &Suite{}
	s.Config.Faculty.Definitions = "/w.json"
	var names []string
	for _, p := range s.programs() {
		names = append(names, p.name)
	}
	if got := strings.Join(names, " "); got != "playground-jaild playground-reaperd playground-facultyd playgroundd" {
		t.Error(got)
	}
}

// TestMain makes the test binary stand in for the daemons: it is linked under their names.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if strings.HasPrefix(name, "playground") {
		os.Exit(fakeDaemon(name))
	}
	os.Exit(m.Run())
}

// fakeDaemon behaves as the file "behave-NAME" beside the configuration says.
func fakeDaemon(name string) int {
	state := filepath.Dir(os.Args[2])
	behaviour, _ := os.ReadFile(filepath.Join(state, "behave-"+name))
	fmt.Fprintf(os.Stderr, "%s pid %d says hello\n", name, os.Getpid())
	switch string(behaviour) {
	case "fail":
		return 1
	case "lost":
		return ExitProofLost
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if ok, err := sd.SdNotify(false, sd.SdNotifyReady); !ok || err != nil {
		return 9
	}
	<-stop
	if string(behaviour) == "stubborn" {
		select {}
	}
	record(state, "stopped "+name)
	return 0
}

func record(state, line string) {
	f, err := os.OpenFile(filepath.Join(state, "record"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, line)
		_ = f.Close()
	}
}

// news collects what a Suite says.
type news struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func (n *news) say(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// wait waits until a line holds text.
func (n *news) wait(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		n.mu.Lock()
		found := slices.ContainsFunc(n.lines, func(line string) bool { return strings.Contains(line, text) })
		all := strings.Join(n.lines, "\n")
		n.mu.Unlock()
		if found {
			return
		}
		select {
		case <-n.more:
		case <-deadline:
			t.Fatalf("no news of %q in:\n%s", text, all)
		}
	}
}

// open makes a suite of fake daemons.
func open(t *testing.T, behaviour map[string]string) (*Suite, *news) {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "pgsuite") // t.TempDir may be too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(base, "state")
	for _, program := range (&Suite{}).programs() {
		if err := os.Symlink(self, filepath.Join(base, program.name)); err != nil {
			t.Fatal(err)
		}
	}
	n := &news{more: make(chan struct{}, 1)}
	s, err := Open(Options{State: state, Bin: base, Say: n.say})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for name, text := range behaviour {
		if err := os.WriteFile(filepath.Join(state, "behave-"+name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s, n
}

// running starts s.Run and waits until it is ready.
func running(t *testing.T, s *Suite, wantServing bool) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ready, result := make(chan struct{}), make(chan error, 1)
	go func() { result <- s.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
		if s.Serving() != wantServing {
			t.Errorf("serving: %v, want %v", s.Serving(), wantServing)
		}
	case err := <-result:
		t.Fatalf("Run returned before it was ready: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("not ready after 20 s")
	}
	return func() error {
		cancel()
		return <-result
	}
}

func TestStopsInReverseOrder(t *testing.T) {
	s, n := open(t, nil)
	stop := running(t, s, true)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, program := range (&Suite{}).programs() {
		n.wait(t, program.name+" is ready")
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "record"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "stopped playgroundd\nstopped playground-reaperd\nstopped playground-jaild\n"; string(text) != want {
		t.Errorf("stopped in this order:\n%swant:\n%s", text, want)
	}
	left, err := filepath.Glob(filepath.Join(s.Config.Host.RunDir, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the run folder still holds %v (%v)", left, err)
	}
}

func TestFailedStartShowsTheLog(t *testing.T) {
	s, _ := open(t, map[string]string{"playground-reaperd": "fail"})
	err := s.Run(t.Context(), func() { t.Error("it said ready") })
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "says hello") {
		t.Fatalf("got %v, want an error with the daemon's last words", err)
	}
	text, _ := os.ReadFile(filepath.Join(s.Dir, "record"))
	if string(text) != "stopped playground-jaild\n" {
		t.Errorf("record is %q, want the one that had started to be stopped", text)
	}
}

func TestRestartsWhatDies(t *testing.T) {
	s, n := open(t, nil)
	stop := running(t, s, true)
	log, err := os.ReadFile(filepath.Join(s.LogDir(), "playgroundd.log"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(string(log), "playgroundd pid %d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.wait(t, "starting it again in 1s")
	n.wait(t, "playgroundd is ready again")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A daemon that refuses to work because of a lost proof must not take down reaperd, which has to answer "playground ack".
func TestLostProofKeepsTheRestUp(t *testing.T) {
	s, n := open(t, map[string]string{"playgroundd": "lost"})
	stop := running(t, s, false)
	n.wait(t, "playground ack")
	if err := os.Remove(filepath.Join(s.Dir, "behave-playgroundd")); err != nil {
		t.Fatal(err)
	}
	n.wait(t, "playgroundd is ready again")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestKillDoesNotWait(t *testing.T) {
	s, _ := open(t, map[string]string{"playground-jaild": "stubborn"})
	stop := running(t, s, true)
	s.Kill()
	began := time.Now()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

func TestOneSuitePerFolder(t *testing.T) {
	s, _ := open(t, nil)
	_, err := Open(Options{State: s.Dir, Bin: s.bin})
	if !errors.Is(err, fault.Busy) || !strings.Contains(fault.HintOf(err), fmt.Sprint(os.Getpid())) {
		t.Fatalf("got %v (hint %q), want Busy and the holder's pid", err, fault.HintOf(err))
	}
}

// Whoever runs the suite as an ordinary user gives its agent no more than they have themselves. Root's agent would have the host.
func TestHostToolsOfAFirstConfiguration(t *testing.T) {
	s, _ := open(t, nil)
	if got, want := s.Config.Work.HostTools, os.Geteuid() != 0; got != want {
		t.Errorf("host_tools is %v for uid %d", got, os.Geteuid())
	}
	if w := s.Config.Work; w.Provider != "" || w.Operator != "did:sync:user:operator" {
		t.Errorf("%+v", w)
	}
}

func TestNeverOverwritesTheConfiguration(t *testing.T) {
	s, _ := open(t, nil)
	s.Close()
	before, err := os.ReadFile(s.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Listen: "127.0.0.1:1"}, {Isolation: "none"}} {
		o.State, o.Bin = s.Dir, s.bin
		if _, err := Open(o); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "contradicts") {
			t.Errorf("Open(%+v) = %v, want a contradiction", o, err)
		}
	}
	after, err := os.ReadFile(s.ConfigPath)
	if err != nil || string(after) != string(before) {
		t.Errorf("the configuration changed (%v):\n%s", err, after)
	}
}

// A refused first option leaves no broken file behind.
func TestRefusedOptionLeavesNoConfiguration(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "pgsuite")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(base, "state")
	if _, err := Open(Options{State: state, Isolation: "magic", Bin: base}); !errors.Is(err, fault.Invalid) {
		t.Fatalf("got %v, want Invalid", err)
	}
	s, err := Open(Options{State: state, Bin: base})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestLongStateFolder(t *testing.T) {
	_, err := Open(Options{State: "/tmp/" + strings.Repeat("x", 90)})
	if !errors.Is(err, fault.Invalid) || !strings.Contains(fault.HintOf(err), "--state") {
		t.Fatalf("got %v (hint %q)", err, fault.HintOf(err))
	}
}

// Whoever starts a suite for a purpose of its own may change what a new state folder gets; a change that fails leaves no file.
func TestEdit(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "pgsuite")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "state")
	refused := errors.New("no")
	options := Options{State: dir, Bin: base, Edit: func(string, string) (string, error) { return "", refused }}
	if _, err := Open(options); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, ConfigName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
	options.Edit = func(in, text string) (string, error) {
		if in != dir {
			t.Errorf("the folder is %q", in)
		}
		return strings.Replace(text, "[work]\n", "[work]\ncapacity = 3\n", 1), nil
	}
	s, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	options.Edit = nil // the file is there now
	if s, err = Open(options); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if w := s.Config.Work; w.Capacity != 3 || w.Worker.UIDBase < 500_000 || w.Worker.UIDBase+config.WorkerIDs > 1_000_000 {
		t.Errorf("%+v", w)
	}
}
