package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/cli"
	"playground/localapi/userapi"
	"playground/mcpclient"
	"playground/suite"
)

// A demo is one play on a running suite.
type demo struct {
	t        *transcript
	env      cli.Env
	suite    *suite.Suite
	state    string
	isolated bool
	news     lines    // what the suite says
	settings []string // of its configuration, for the transcript

	ada, grace *client
	session    string // ada's
	job        string // of ada, for grace to try

	clients []*client         // all that are connected
	tokens  map[string]string // by tenant
	api     instance          // /v1, as the operator
	run     string            // the thread of the second act's run
	faculty bool              // the example is in its tenant's sandbox
}

// The two tenants.
const (
	first  = "ada"
	second = "grace"
)

// steps plays all steps in order. An error means that the play could not go on; a wrong answer is only counted.
func (d *demo) steps(ctx context.Context) error {
	defer d.hangUp()
	return d.inOrder(ctx,
		d.tenants, d.open, d.command, d.isolation, d.file, d.poll, d.cancel, d.foreign, d.stdio, d.closeSession, d.revoke,
		d.operatorToken, d.verifyRun, d.buildFaculty)
}

// moreSteps plays the second act.
func (d *demo) moreSteps(ctx context.Context) error {
	defer d.hangUp()
	return d.inOrder(ctx, d.ceiling, d.midRun, d.stopRun, d.proveLog, d.serveFaculty, d.stopFaculty)
}

// inOrder plays steps until one cannot go on.
func (d *demo) inOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hangUp closes what is still connected.
func (d *demo) hangUp() {
	for _, c := range d.clients {
		_ = c.session.Close() // the daemons stop next
		c.http.CloseIdleConnections()
	}
	d.clients = nil
	d.api.http.CloseIdleConnections()
}

// tenants makes two tenants and connects a client for each.
func (d *demo) tenants(ctx context.Context) (err error) {
	d.t.title("Two tenants, each with a sandbox and a token of its own")
	for _, name := range []string{first, second} {
		if err := d.tenant(ctx, name, ""); err != nil {
			return err
		}
	}
	if d.ada, err = d.overHTTP(ctx, first, ""); err != nil {
		return err
	}
	if d.grace, err = d.overHTTP(ctx, second, ""); err != nil {
		return err
	}
	return d.tools(ctx)
}

// tenant makes a tenant and keeps its token.
func (d *demo) tenant(ctx context.Context, name, network string) error {
	shown := "user create " + name
	if network != "" {
		shown += " --network " + network
	}
	var created userapi.Created
	began := time.Now()
	err := d.operator(ctx, shown, func(e *cli.Env, ctx context.Context) error {
		return e.UserCreate(ctx, name, cli.CreateOptions{Network: network})
	}, &created)
	if err != nil {
		return err
	}
	d.t.answered(fmt.Sprintf("session %s, persona %q, isolation %s, network %s, token %s...", created.User.Sandbox.Name,
		created.User.Sandbox.Persona, created.User.Sandbox.Isolation, created.User.Sandbox.Network, created.User.Token.Prefix), time.Since(began))
	d.tokens[name] = created.Token
	return nil
}

// tools checks that the eight tools are there.
func (d *demo) tools(ctx context.Context) error {
	list, err := d.ada.session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	d.t.check(len(names) == 8, "eight tools: %s", strings.Join(names, ", "))
	return nil
}

// open opens ada's session.
func (d *demo) open(ctx context.Context) error {
	d.t.title("A session")
	a, err := d.ada.call(ctx, "open_session", map[string]any{})
	if err != nil {
		return err
	}
	var opened struct{ Session, Persona, Isolation string }
	a.Into(&opened)
	d.session = opened.Session
	d.t.check(!a.IsError && opened.Session != "", "the session is %s", opened.Session)
	d.t.check(opened.Persona == first+" assistant", "the persona is %q", opened.Persona)
	d.t.check((opened.Isolation != "none") == d.isolated, "the isolation is told truthfully: %s", opened.Isolation)
	return nil
}

// An ended command, as exec and the last page of a job tell it.
type ended struct {
	Outcome    string
	ExitCode   *int `json:"exit_code"`
	Cleanup    receipt
	DurationMS int64 `json:"duration_ms"`
}

// A receipt says what a command left behind.
type receipt struct {
	Killed, Survivors int
	Proven            bool
}

func (e ended) exited(code int) bool {
	return e.Outcome == "exited" && e.ExitCode != nil && *e.ExitCode == code
}

// command runs commands that succeed and that fail.
func (d *demo) command(ctx context.Context) error {
	d.t.title("A command, and one that fails")
	a, err := d.exec(ctx, `echo "hello from $(whoami 2>/dev/null || id -un)"; echo "$PERSONA" >&2`)
	if err != nil {
		return err
	}
	var e ended
	a.Into(&e)
	d.t.check(e.exited(0) && strings.Contains(a.Text, "hello from") && strings.Contains(a.Text, first+" assistant"), "exit code 0, both streams came back")
	if a, err = d.exec(ctx, "exit 7"); err != nil {
		return err
	}
	a.Into(&e)
	d.t.check(e.exited(7) && !a.IsError, "exit code 7 is a normal result, not an error")
	return nil
}

func (d *demo) exec(ctx context.Context, command string) (mcpclient.Answer, error) {
	return d.ada.call(ctx, "exec", map[string]any{"session": d.session, "command": command})
}

// isolation shows what a command cannot reach.
func (d *demo) isolation(ctx context.Context) error {
	d.t.title("What a command cannot see")
	if !d.isolated {
		d.t.notShown(noIsolation, "other processes, the host's files and the network are out of reach")
		return nil
	}
	a, err := d.exec(ctx, `ls -d /proc/[0-9]* | wc -l; ls `+d.state+` 2>&1; ls /sys/class/net /proc/1/root 2>&1 | head -n 3; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '`)
	if err != nil {
		return err
	}
	d.t.check(!strings.Contains(a.Text, suite.ConfigName) && !strings.Contains(a.Text, "accounts.db"), "the suite's state folder is not there")
	a, err = d.ada.quiet(ctx, "exec", map[string]any{"session": d.session, "command": `ls -d /proc/[0-9]* | wc -l`})
	if err != nil {
		return err
	}
	var count int
	for _, line := range strings.Split(a.Text, "\n") {
		if _, err := fmt.Sscanf(line, "%d", &count); err == nil {
			break
		}
	}
	d.t.check(count > 0 && count < 12, "only its own processes are in /proc (%d)", count)
	a, err = d.ada.quiet(ctx, "exec", map[string]any{"session": d.session, "command": `tail -n +3 /proc/net/dev | grep -v -c ' *lo:'`})
	if err != nil {
		return err
	}
	d.t.check(strings.Contains("\n"+a.Text+"\n", "\n0\n"), "no network interface but its own loopback")
	return nil
}

// file writes a binary file and reads it back.
func (d *demo) file(ctx context.Context) error {
	d.t.title("A binary file, there and back")
	data := make([]byte, 100_000)
	if _, err := rand.Read(data); err != nil {
		return err
	}
	const path = "random.bin"
	a, err := d.ada.call(ctx, "write", map[string]any{"session": d.session, "path": path, "base64": base64.StdEncoding.EncodeToString(data)})
	if err != nil {
		return err
	}
	var written struct {
		Size   int64
		Atomic bool
	}
	a.Into(&written)
	d.t.check(!a.IsError && written.Size == int64(len(data)), "%d bytes were written", written.Size)
	d.t.check(written.Atomic, "the file was replaced atomically")
	a, err = d.ada.call(ctx, "read", map[string]any{"session": d.session, "path": path})
	if err != nil {
		return err
	}
	d.t.check(bytes.Equal(a.Blob, data), "all %d bytes came back, byte for byte", len(data))
	return nil
}

// A page is one job_poll answer.
type page struct {
	State   string
	Chunks  []struct{ Text, Base64 string }
	Next    any `json:"next_cursor"`
	HasMore bool
	Result  *ended
}

func (p page) text() string {
	var b strings.Builder
	for _, chunk := range p.Chunks {
		b.WriteString(chunk.Text)
	}
	return b.String()
}

// poll runs a job and reads its output while it runs.
func (d *demo) poll(ctx context.Context) error {
	d.t.title("A job, read while it runs")
	id, err := d.start(ctx, `for i in 1 2 3 4; do echo "line $i"; sleep 0.3; done`)
	if err != nil {
		return err
	}
	p, text, live, err := d.follow(ctx, id)
	if err != nil {
		return err
	}
	d.t.check(live > 0, "output came while the job still ran (%d of the polls)", live)
	d.t.check(text == "line 1\nline 2\nline 3\nline 4\n", "every line came exactly once")
	d.t.check(p.Result != nil && p.Result.exited(0) && p.Result.Cleanup.Proven, "it exited with 0 and nothing was left: proven")
	return nil
}

// start starts a job of ada and returns its id.
func (d *demo) start(ctx context.Context, command string) (string, error) {
	a, err := d.ada.call(ctx, "job_exec", map[string]any{"session": d.session, "command": command})
	if err != nil {
		return "", err
	}
	var started struct {
		JobID string `json:"job_id"`
	}
	a.Into(&started)
	if !d.t.check(!a.IsError && started.JobID != "", "it is job %s", started.JobID) {
		return "", fmt.Errorf("cannot start a job: %s", a.Text)
	}
	return started.JobID, nil
}

// follow polls a job to its end. It returns the last page, all text, and how many polls of a running job had news.
func (d *demo) follow(ctx context.Context, id string) (last page, text string, live int, err error) {
	var cursor any = 0
	for {
		a, err := d.ada.call(ctx, "job_poll", map[string]any{"job_id": id, "cursor": cursor, "wait_ms": 5000})
		if err != nil {
			return last, text, live, err
		}
		if a.IsError {
			return last, text, live, fmt.Errorf("cannot poll %s: %s", id, a.Text)
		}
		last = page{}
		a.Into(&last)
		text += last.text()
		if last.State == "running" && len(last.Chunks) > 0 {
			live++
		}
		if last.Result != nil {
			return last, text, live, nil
		}
		cursor = last.Next
	}
}

// stdio does one command over "playground mcp".
func (d *demo) stdio(ctx context.Context) error {
	d.t.title("The same tools over standard input and output, for a local client")
	cmd := exec.Command(filepath.Join(d.env.Bin, "playground"), "-c", d.env.Config, "mcp", "--tenant", first)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	d.t.asked("$", "playground mcp --tenant "+first)
	c := &client{name: first + " (stdio)", t: d.t}
	if err := c.connect(ctx, "", &mcp.CommandTransport{Command: cmd}); err != nil {
		return fmt.Errorf("%w\n%s", err, stderr.String())
	}
	if _, err := c.call(ctx, "open_session", map[string]any{}); err != nil {
		return err
	}
	a, err := c.call(ctx, "exec", map[string]any{"session": d.session, "command": "wc -c < random.bin"})
	if err != nil {
		return err
	}
	d.t.check(strings.Contains(a.Text, "100000"), "it is the same sandbox: the file is there")
	began := time.Now()
	err = c.session.Close()
	d.t.check(err == nil && time.Since(began) < 4*time.Second, "the server left at the end of its input, by itself (%s)", spent(time.Since(began)))
	return nil
}
