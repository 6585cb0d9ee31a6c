package daemon

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a child daemon.
type process struct {
	*exec.Cmd
	out    *bufio.Reader
	errors *bytes.Buffer
}

func startChild(t *testing.T, role string, stderr io.Writer, env ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0]), errors: new(bytes.Buffer)}
	p.Env = append(append(os.Environ(), childEnv+"="+role), env...)
	p.Stderr = p.errors
	if stderr != nil {
		p.Stderr = stderr
	}
	pipe, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(pipe)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may be gone
		_ = p.Wait()
	})
	return p
}

// expect reads standard output up to the line that begins with prefix and returns what was read.
func (p *process) expect(t *testing.T, prefix string) string {
	t.Helper()
	var all strings.Builder
	for {
		line, err := p.out.ReadString('\n')
		all.WriteString(line)
		if strings.HasPrefix(line, prefix) {
			return all.String()
		}
		if err != nil {
			t.Fatalf("waiting for %q: %v; output so far:\n%s%s", prefix, err, all.String(), p.errors)
		}
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func TestSignalStopsInOrder(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			p := startChild(t, "orderly", nil)
			p.expect(t, "start second")
			p.signal(t, s)
			if got := p.expect(t, "stop first"); got != "stop second\nstop first\n" {
				t.Errorf("stopped as %q", got)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("exit = %v\n%s", err, p.errors)
			}
			for _, event := range []string{`"message":"starting"`, `"message":"stopping"`, `"reason":"signal`, `"message":"stopped"`} {
				if !strings.Contains(p.errors.String(), event) {
					t.Errorf("the log lacks %s:\n%s", event, p.errors)
				}
			}
		})
	}
}

func TestSecondSignalExits(t *testing.T) {
	p := startChild(t, "hang", nil)
	p.expect(t, "start second")
	p.signal(t, syscall.SIGTERM)
	p.expect(t, "hanging")
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	err := p.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("exit = %v, want status 1", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the exit took %v", took)
	}
	if !strings.Contains(p.errors.String(), `"message":"hard_exit"`) {
		t.Errorf("the log lacks the hard exit:\n%s", p.errors)
	}
}

// A daemon outlives the reader of its log, and does not make its children deaf to SIGPIPE.
func TestBrokenLogPipe(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startChild(t, "pipe", write)
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "start second")
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	out := p.expect(t, "stop first")
	if !strings.Contains(out, "broken pipe") || !strings.Contains(out, "child: signal: broken pipe") {
		t.Errorf("output:\n%s", out)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("exit = %v", err)
	}
}

// What a daemon logs before and after Run must not kill it either.
func TestBrokenLogPipeBeforeRun(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	p := startChild(t, "early", write)
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "not running yet")
	// Its standard input is empty: it goes on at once.
	if err := p.Wait(); p.ProcessState.ExitCode() != 7 {
		t.Errorf("exit = %v, want status 7", err)
	}
}

func TestNotify(t *testing.T) {
	dir, err := os.MkdirTemp("", "pgd") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	receive := func() string {
		b := make([]byte, 100)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	p := startChild(t, "orderly", nil, "NOTIFY_SOCKET="+socket)
	if got := receive(); got != "READY=1" {
		t.Errorf("first notification = %q", got)
	}
	p.expect(t, "start second")
	p.signal(t, syscall.SIGTERM)
	if got := receive(); got != "STOPPING=1" {
		t.Errorf("second notification = %q", got)
	}
	p.expect(t, "stop first")
	if err := p.Wait(); err != nil {
		t.Errorf("exit = %v", err)
	}
}
