package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The real programs, as the package starts them: two as root, and playgroundd as nobody, with sockets that only root could
// have made.
func TestRealDaemon(t *testing.T) {
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" || os.Getenv("PLAYGROUND_ROOT_TESTS") != "1" || os.Geteuid() != 0 {
		t.Skip("needs root, PLAYGROUND_ROOT_TESTS=1, and PLAYGROUND_BIN")
	}
	dir, err := os.MkdirTemp("/tmp", "pl-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = exec.Command("chattr", "-R", "-a", dir).Run() // the shared pile is append-only where that works
		_ = os.RemoveAll(dir)
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// An ordinary user cannot reach where it was built.
	daemon := filepath.Join(dir, "playgroundd")
	if out, err := exec.Command("cp", filepath.Join(bin, "playgroundd"), daemon).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address, metrics := freeAddress(t), freeAddress(t)
	path := configuration(t, dir, `state_dir = "`+dir+`/state"`+"\n"+`run_dir = "`+dir+`/run"`+"\n"+`daemon_user = "nobody"`+"\n"+`libexec_dir = "`+bin+`"`,
		`listen = "`+address+`"`+"\n"+`metrics_listen = "`+metrics+`"`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, name := range []string{"playground-jaild", "playground-reaperd"} {
		defer startRoot(t, ctx, filepath.Join(bin, name), path)()
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "playground-launch"), "-c", path, "-program", daemon)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answer(t, ctx, "http://"+metrics+"/healthz")
	answer(t, ctx, "http://"+address+"/mcp")
	checkProcess(t, cmd.Process.Pid, daemon)
	// It answers only if nobody could reach the sockets of both root daemons.
	if out, err := exec.CommandContext(ctx, filepath.Join(bin, "playground"), "-c", path, "ready", "--timeout", "10s").CombinedOutput(); err != nil {
		t.Errorf("not ready: %v\n%s\n%s", err, out, &log)
	}
	checkSocket(t, filepath.Join(dir, "run/operator.sock"))
	if _, err := os.Stat(filepath.Join(dir, "state/playgroundd/accounts.db")); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
}

// startRoot starts a root daemon and waits until it answers. The returned function stops it.
func startRoot(t *testing.T, ctx context.Context, program, config string) (stop func()) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "-c", config)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, program, "-c", config, "-ready", "10s").CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", program, err, out)
	}
	return func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", program, err, &log)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// answer waits for any answer.
func answer(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not answer: %v", url, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// checkProcess looks at the daemon from outside.
func checkProcess(t *testing.T, pid int, program string) {
	t.Helper()
	if link, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || link != program {
		t.Errorf("process %d runs %q, %v", pid, link, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
}

func checkSocket(t *testing.T, path string) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 || info.Mode().Perm() != 0o660 {
		t.Errorf("%s: %v of %d", path, info.Mode(), st.Uid)
	}
}
