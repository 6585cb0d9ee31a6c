package tool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"

	"playground/jail"
	"playground/job"
	"playground/sandbox"
	"playground/workloop/loop"
)

func tenantTools() []loop.Tool {
	const cwd = `,"cwd":{"type":"string","description":"working directory"}`
	return []loop.Tool{
		define("exec", "Run a command with a login shell in your own sandbox, to its end. What it leaves running is killed.",
			`"command":{"type":"string"},"timeout_ms":{"type":"integer","minimum":1,"maximum":280000}`+cwd, "command"),
		define("read", "Read a file of your own sandbox, at most 256 KiB.", `"path":{"type":"string"}`+cwd, "path"),
		define("write", "Write a file of your own sandbox, in place of what it held: text, or bytes in base64.",
			`"path":{"type":"string"},"text":{"type":"string"},"base64":{"type":"string"}`+cwd, "path"),
	}
}

// A tenant is the principal's own computer. Its session is opened by the first call and given back with the run. The tenant's
// name comes from the run's principal; no argument of a call can name another.
type tenant struct {
	env    Env
	mu     sync.Mutex // guards opened
	opened bool
}

func (t *tenant) tools() map[string]run {
	return map[string]run{"exec": t.exec, "read": t.read, "write": t.write}
}

// session returns the id of the open session.
func (t *tenant) session(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.opened {
		if _, err := t.env.Sandbox.Open(ctx, t.env.Tenant, jail.OpenOptions{}); err != nil {
			return "", err
		}
		t.opened = true
	}
	return t.env.Sandbox.Session(t.env.Tenant), nil
}

func (t *tenant) close(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.opened {
		return nil
	}
	t.opened = false
	_, err := t.env.Sandbox.Close(ctx, t.env.Tenant, t.env.Sandbox.Session(t.env.Tenant))
	return err
}

func (t *tenant) exec(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Command string `json:"command"`
		Cwd     string `json:"cwd"`
		Timeout int64  `json:"timeout_ms"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	limit, err := commandLimit(in.Command, in.Timeout)
	if err != nil {
		return loop.Result{}, err
	}
	session, err := t.session(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	e, err := t.env.Sandbox.Exec(ctx, t.env.Tenant, session, sandbox.Command{Text: in.Command, Cwd: in.Cwd, Timeout: limit}, keepHead, keepTail)
	if err != nil {
		return loop.Result{}, err
	}
	ok := e.Outcome == job.Exited && e.ExitCode != nil && *e.ExitCode == 0
	return commandAnswer(endText(e.Result), ok, e.Stdout, e.Stderr)
}

// endText is a command's end in one line, with what else the reader should know.
func endText(r job.Result) string {
	text := string(r.Outcome)
	switch {
	case r.Outcome == job.Exited && r.ExitCode != nil:
		text = fmt.Sprintf("exit %d", *r.ExitCode)
	case r.Outcome == job.Signalled:
		text = "killed by " + r.Signal
	case r.Error != "":
		text += ": " + r.Error
	}
	text += fmt.Sprintf(" in %d ms", r.DurationMS)
	for _, hint := range r.Hints {
		text += "\nnote: " + hint
	}
	return text
}

func (t *tenant) read(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Path string `json:"path"`
		Cwd  string `json:"cwd"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	if err := need("path", in.Path); err != nil {
		return loop.Result{}, err
	}
	session, err := t.session(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	file, err := t.env.Sandbox.Read(ctx, t.env.Tenant, session, in.Path, in.Cwd)
	if err != nil {
		return loop.Result{}, err
	}
	if len(file.Data) > maxFile {
		return failed("too_large", fmt.Sprintf("The file has %d bytes; at most %d can be read at once. Use exec with head or tail.", len(file.Data), maxFile)), nil
	}
	return fileAnswer(in.Path, file.Data)
}

func (t *tenant) write(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Path   string  `json:"path"`
		Text   *string `json:"text"`
		Base64 *string `json:"base64"`
		Cwd    string  `json:"cwd"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	if err := need("path", in.Path); err != nil {
		return loop.Result{}, err
	}
	if (in.Text == nil) == (in.Base64 == nil) {
		return loop.Result{}, &argumentError{"give text or base64, one of them"}
	}
	var data []byte
	if in.Text != nil {
		data = []byte(*in.Text)
	} else {
		var err error
		if data, err = base64.StdEncoding.DecodeString(*in.Base64); err != nil {
			return loop.Result{}, &argumentError{"base64 cannot be decoded"}
		}
	}
	session, err := t.session(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	written, err := t.env.Sandbox.Write(ctx, t.env.Tenant, session, in.Path, in.Cwd, data)
	if err != nil {
		return loop.Result{}, err
	}
	return answer(fmt.Sprintf("wrote %d bytes", written.Size), map[string]any{"path": written.Path, "size": written.Size, "atomic": written.Atomic})
}
