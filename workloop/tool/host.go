package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"playground/fault"
	"playground/ring"
	"playground/workloop/loop"
)

// Bounds of commands.
const (
	commandDefault = 45 * time.Second
	commandMax     = 280 * time.Second
	commandDrain   = 2 * time.Second // for pipes that what was left behind holds open
	maxCommand     = 64 << 10
	keepHead       = 12 << 10 // bytes of each output stream that the model sees
	keepTail       = 12 << 10
)

func hostTools() []loop.Tool {
	const where = `"path":{"type":"string","description":"path below the workspace"}`
	return []loop.Tool{
		define("bash", "Run a command with /bin/sh in the workspace on the operator's machine. At its end, at the latest after timeout_ms, all of its process group is killed.",
			`"command":{"type":"string"},"timeout_ms":{"type":"integer","minimum":1,"maximum":280000}`, "command"),
		define("read", "Read a file of the workspace, at most 256 KiB.", where, "path"),
		define("write", "Write a file of the workspace, in place of what it held. Missing folders are made.", where+`,"text":{"type":"string"}`, "path", "text"),
		define("edit", "Replace a text in a file of the workspace. The old text must be there exactly once, unless all is true.",
			where+`,"old":{"type":"string"},"new":{"type":"string"},"all":{"type":"boolean"}`, "path", "old", "new"),
	}
}

// A host is a folder on the operator's own machine, where commands run with the daemon's rights. It is offered to the operator's
// own runs alone.
type host struct{ workspace string }

func (h *host) tools() map[string]run {
	files := &folder{h.workspace}
	return map[string]run{"bash": h.bash, "read": files.read, "write": files.write, "edit": files.edit}
}

func (h *host) bash(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Command string `json:"command"`
		Timeout int64  `json:"timeout_ms"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	limit, err := commandLimit(in.Command, in.Timeout)
	if err != nil {
		return loop.Result{}, err
	}
	if limit == 0 {
		limit = commandDefault
	}
	info, err := os.Stat(h.workspace)
	if err != nil || !info.IsDir() {
		return loop.Result{}, fault.New(fault.Unavailable, "the workspace is not a folder")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	capture := ring.NewCapture(keepHead, keepTail)
	begin := time.Now()
	state, err := runGroup(ctx, h.workspace, in.Command, capture)
	if err != nil {
		return loop.Result{}, fault.Hide(fault.Unavailable, err, "the command could not be started")
	}
	head := fmt.Sprintf("exit %d", state.ExitCode())
	if wait, ok := state.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		head = "killed by " + wait.Signal().String()
	}
	if ctx.Err() != nil {
		head = "timed out or cancelled; killed with its process group"
	}
	head += " in " + time.Since(begin).Round(time.Millisecond).String()
	return commandAnswer(head, ctx.Err() == nil && state.Success(), capture.Stream(ring.Stdout), capture.Stream(ring.Stderr))
}

// commandLimit checks a command and returns its timeout, 0 for none given.
func commandLimit(command string, timeoutMS int64) (time.Duration, error) {
	switch {
	case strings.TrimSpace(command) == "":
		return 0, &argumentError{"command is missing"}
	case len(command) > maxCommand || strings.ContainsRune(command, 0):
		return 0, &argumentError{fmt.Sprintf("command must have at most %d bytes and no NUL", maxCommand)}
	case timeoutMS < 0 || timeoutMS > commandMax.Milliseconds():
		return 0, &argumentError{fmt.Sprintf("timeout_ms must be between 1 and %d", commandMax.Milliseconds())}
	}
	return time.Duration(timeoutMS) * time.Millisecond, nil
}

// A stream writes one output stream into a capture.
type stream struct {
	capture *ring.Capture
	of      ring.Stream
}

// Write implements io.Writer.
func (s stream) Write(p []byte) (int, error) {
	s.capture.Write(s.of, p)
	return len(p), nil
}

// runGroup runs a command in a process group of its own and kills the group when ctx ends and, whatever it left behind, when it
// has ended. The daemon's environment does not reach it.
func runGroup(ctx context.Context, dir, command string, capture *ring.Capture) (*os.ProcessState, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + dir, "PWD=" + dir, "LANG=C.UTF-8"}
	cmd.Stdout, cmd.Stderr = stream{capture, ring.Stdout}, stream{capture, ring.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = commandDrain
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// The leader's id names the group for as long as a member lives. Where none does, it has been free for a moment only.
	err := cmd.Wait()
	_ = kill()
	if _, exited := errors.AsType[*exec.ExitError](err); err == nil || exited || errors.Is(err, exec.ErrWaitDelay) || ctx.Err() != nil {
		return cmd.ProcessState, nil
	}
	return nil, err
}

// commandAnswer shows a command's end: the outcome first, then its output.
func commandAnswer(head string, ok bool, out, errs ring.Captured) (loop.Result, error) {
	var b strings.Builder
	b.WriteString(head)
	if out.Total > 0 {
		b.WriteString("\n" + captured(out))
	}
	if errs.Total > 0 {
		b.WriteString("\n--- stderr ---\n" + captured(errs))
	}
	result, err := answer(b.String(), map[string]any{"stdout_bytes": out.Total, "stderr_bytes": errs.Total, "truncated": out.Truncated() || errs.Truncated()})
	if !ok {
		result.Status, result.Code = loop.StatusError, "command_failed"
	}
	return result, err
}

// captured is the text of what was kept of a stream.
func captured(c ring.Captured) string {
	text := string(c.Head)
	if c.Truncated() {
		text += fmt.Sprintf("\n[... %d bytes left out ...]\n", c.Total-int64(len(c.Head)+len(c.Tail)))
	}
	return strings.ToValidUTF8(text+string(c.Tail), "\uFFFD")
}

func (f *folder) edit(_ context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Path string `json:"path"`
		Old  string `json:"old"`
		New  string `json:"new"`
		All  bool   `json:"all"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	if err := need("path", in.Path); err != nil {
		return loop.Result{}, err
	}
	if in.Old == "" {
		return loop.Result{}, &argumentError{"old is missing"}
	}
	root, name, err := f.enter(in.Path)
	if err != nil {
		return loop.Result{}, err
	}
	defer root.Close()
	data, err := readFile(root, name)
	if err != nil {
		return loop.Result{}, err
	}
	n := strings.Count(string(data), in.Old)
	if n == 0 || n > 1 && !in.All {
		return loop.Result{}, fault.New(fault.Invalid, "cannot edit %q: the old text is there %d times", in.Path, n).
			WithHint("give more of the text around it, or set all")
	}
	if err := writeFile(root, name, []byte(strings.ReplaceAll(string(data), in.Old, in.New))); err != nil {
		return loop.Result{}, err
	}
	return answer(fmt.Sprintf("replaced %d", n), map[string]any{"path": in.Path, "replaced": n})
}
