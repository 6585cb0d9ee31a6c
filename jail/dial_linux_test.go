package jail_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"playground/fault"
	"playground/internal/sandboxtest"
	"playground/jail"
	"playground/job"
	"playground/reaper"
)

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }

// listen runs a server in the tenant's sandbox that greets everybody by name, or, with accept false, takes nobody's connection.
func listen(t *testing.T, h *sandboxtest.Host, tenant, address string, accept bool) {
	t.Helper()
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not installed")
	}
	loop := "sleep 600"
	if accept {
		loop = `while ($c = $s->accept) { print $c "this is ` + tenant + `\n"; close $c }`
	}
	host, port, _ := strings.Cut(address, "/")
	script := fmt.Sprintf(`use IO::Socket::IP; $s = IO::Socket::IP->new(LocalHost => "%s", LocalPort => %s, Listen => 1) or die "$!"; open F, ">", "/tmp/up"; close F; %s`, host, port, loop)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	out := &sandboxtest.Output{}
	wg.Go(func() {
		_, _ = h.Runner.Run(ctx, job.Spec{Tenant: tenant, Command: []byte("perl -e '" + script + "'"), Mode: job.Login}, out)
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	res, _ := h.Sh(t, tenant, "for i in $(seq 500); do test -e /tmp/up && exit 0; sleep 0.02; done; exit 1")
	if code(res) != 0 {
		t.Fatalf("the server did not start: %s", out.Stderr())
	}
}

// code is a command's exit status, or -1.
func code(res job.Result) int {
	if res.ExitCode == nil {
		return -1
	}
	return *res.ExitCode
}

func read(t *testing.T, f *os.File) string {
	t.Helper()
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// A connection ends in the tenant's own network, whoever else listens at the same address.
func TestDial(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", jail.NetworkNone)
	h.Tenant(t, "bob", jail.NetworkNone)
	h.Tenant(t, "shared", jail.NetworkHost)
	// The same port on the host: a trap for a dial that leaves the sandbox.
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	address := trap.Addr().String()
	go func() {
		for {
			c, err := trap.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "this is the host\n")
			_ = c.Close()
		}
	}()
	listen(t, h, "alice", strings.Replace(address, ":", "/", 1), true)

	f, err := h.Dial(t.Context(), "alice", address)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, f); got != "this is alice\n" {
		t.Errorf("got %q", got)
	}
	began := time.Now()
	if f, err := h.Dial(t.Context(), "bob", address); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens in bob's sandbox: %v, %v", f, err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a closed port answered after %v", took)
	}
	if f, err := h.Dial(t.Context(), "shared", address); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "itself") {
		t.Errorf("a sandbox on the host's network: %v, %v", f, err)
	}
	if f, err := h.Dial(t.Context(), "nobody", address); !errors.Is(err, fault.NotFound) {
		t.Errorf("no such tenant: %v, %v", f, err)
	}
	port := address[strings.LastIndexByte(address, ':')+1:]
	for _, bad := range []string{"", "localhost:" + port, "0.0.0.0:" + port, "192.0.2.1:" + port, "[::]:" + port, "[::ffff:127.0.0.1]:" + port,
		"127.0.0.1:0", "127.0.0.1", "127.0.0.1:http", "[fe80::1%lo]:" + port, "/run/x.sock", "169.254.169.254:80", "127.0.0.1:" + port + "\x00"} {
		if f, err := h.Dial(t.Context(), "alice", bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, %v", bad, f, err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := h.Dial(over, "alice", address); err == nil {
		t.Errorf("dialled although nobody waits: %v", f)
	}
}

// A server that takes no connection holds up neither the sandbox's other work nor, for long, its caller.
func TestDialStuck(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", jail.NetworkNone)
	listen(t, h, "alice", "127.0.0.1/9001", false)
	var stuck sync.WaitGroup
	defer stuck.Wait()
	errs := make(chan error, 8)
	for range cap(errs) {
		stuck.Go(func() {
			f, err := h.Dial(t.Context(), "alice", "127.0.0.1:9001")
			if err == nil {
				defer f.Close()
				time.Sleep(time.Second) // so that the queue stays full
			}
			errs <- err
		})
	}
	if res, _ := h.Sh(t, "alice", "exit 3"); code(res) != 3 {
		t.Errorf("a command meanwhile: %+v", res)
	}
	stuck.Wait()
	failed := 0
	for range cap(errs) {
		if err := <-errs; err != nil {
			failed++
			if !errors.Is(err, fault.Unavailable) {
				t.Error(err)
			}
		}
	}
	if failed == 0 {
		t.Error("every connection was taken")
	}
	if res, _ := h.Sh(t, "alice", "exit 4"); code(res) != 4 {
		t.Errorf("a command afterwards: %+v", res)
	}
}

// A sandbox that is not there is said at once, and is not made for it.
func TestDialWithoutSandbox(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", jail.NetworkNone)
	if _, err := h.Close(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if f, err := h.Dial(t.Context(), "alice", "127.0.0.1:9001"); !errors.Is(err, fault.NotOpen) {
		t.Errorf("%v, %v", f, err)
	}
	if sb, err := h.Get(t.Context(), "alice"); err != nil || sb.Attached {
		t.Errorf("%+v, %v", sb, err)
	}
}

// killHolders kills this process's children that are holders, by their numbers.
func killHolders(t *testing.T) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // that thread has ended
		}
		for _, number := range strings.Fields(string(text)) {
			line, _ := os.ReadFile("/proc/" + number + "/cmdline")
			pid, err := strconv.Atoi(number)
			if err != nil || !strings.HasPrefix(string(line), "playground-supervise\x00holder") {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		t.Fatal("there is no holder")
	}
}

// A holder that dies is an error and no wait; the next open makes the sandbox anew.
func TestDialDeadHolder(t *testing.T) {
	h := sandboxtest.New(t)
	h.Tenant(t, "alice", jail.NetworkNone)
	killHolders(t)
	began := time.Now()
	if f, err := h.Dial(t.Context(), "alice", "127.0.0.1:9001"); !errors.Is(err, fault.NotOpen) && !errors.Is(err, fault.Unavailable) {
		t.Errorf("%v, %v", f, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := h.Open(t.Context(), "alice", jail.OpenOptions{}); err != nil {
		t.Error(err)
	}
}

// Without isolation nothing is a tenant's own network.
func TestDialWithoutIsolation(t *testing.T) {
	h := sandboxtest.New(t, func(o *jail.Options, _ *reaper.Options) { o.Isolation = jail.IsolationNone })
	h.Tenant(t, "alice", jail.NetworkNone)
	if f, err := h.Dial(t.Context(), "alice", "127.0.0.1:9001"); !errors.Is(err, fault.Unsupported) {
		t.Errorf("%v, %v", f, err)
	}
}
