package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/mcpclient"
	"playground/version"
)

// A tenant is one tenant with its MCP client: the official Go SDK's, as any agent would use it.
type tenant struct {
	name    string
	created created
	session string
	client  *mcp.ClientSession
	base    *http.Transport
	most    time.Duration // one call may take; answerTime when 0
}

// answerTime is how long a daemon may be silent until that is an error. It is more than any command that the play runs.
const answerTime = 5 * time.Minute

// withLimit bounds what is done over the connection: a daemon that takes requests and never answers must not hang the play.
func (t *tenant) withLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	most := cmp.Or(t.most, answerTime)
	return context.WithTimeoutCause(ctx, most, fmt.Errorf("%s: no answer within %v", t.name, most))
}

func (t *tenant) connect(ctx context.Context, endpoint, token string) error {
	t.base = &http.Transport{MaxIdleConnsPerHost: 32}
	transport := &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: mcpclient.Bearer{Token: token, Next: t.base}}}
	return t.over(ctx, transport)
}

func (t *tenant) over(ctx context.Context, transport mcp.Transport) (err error) {
	ctx, cancel := t.withLimit(ctx)
	defer cancel()
	t.client, err = mcp.NewClient(&mcp.Implementation{Name: "playground-kit", Version: version.String()},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}).Connect(ctx, transport, nil)
	if err != nil {
		return fmt.Errorf("cannot connect tenant %s: %w", t.name, whyEnded(ctx, err))
	}
	return nil
}

func (t *tenant) hangUp() {
	if client := t.client; client != nil {
		t.client = nil
		closed := make(chan struct{})
		go func() {
			_ = client.Close() // the tenant is destroyed next
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(10 * time.Second): // it says farewell to a daemon that may not answer
		}
	}
	if t.base != nil {
		t.base.CloseIdleConnections()
	}
}

// An opened is what open_session answers.
type opened struct {
	Session, Persona, Isolation, Network string
	AppendOnly                           struct {
		Enforced bool
		Reason   string
	} `json:"append_only"`
}

func (t *tenant) open(ctx context.Context) error {
	a, err := t.call(ctx, "open_session", nil)
	if err != nil {
		return err
	}
	var o opened
	a.Into(&o)
	if a.IsError || o.Session == "" {
		return fmt.Errorf("cannot open the session of %s: %s", t.name, a.Text)
	}
	t.session = o.Session
	return nil
}

// call calls a tool, with the tenant's session where the tool wants one and none is named.
func (t *tenant) call(ctx context.Context, tool string, args map[string]any) (mcpclient.Answer, error) {
	all := map[string]any{}
	switch tool {
	case "exec", "job_exec", "read", "write", "close_session":
		all["session"] = t.session
	}
	for name, value := range args {
		all[name] = value
	}
	ctx, cancel := t.withLimit(ctx)
	defer cancel()
	answer, err := mcpclient.Call(ctx, t.client, tool, all)
	return answer, whyEnded(ctx, err)
}

// whyEnded adds to an error that a time limit was its cause.
func whyEnded(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// An ended command, as exec and the last page of a job tell it.
type ended struct {
	Outcome     string
	Signal      string
	ExitCode    *int  `json:"exit_code"`
	StdoutBytes int64 `json:"stdout_bytes"`
	DurationMS  int64 `json:"duration_ms"`
	Truncated   bool
	Hints       []string
	Cleanup     receipt
	Error       string
}

// A receipt says what a command left behind.
type receipt struct {
	Killed, Survivors int
	Proven            bool
	ElapsedMS         int64 `json:"elapsed_ms"`
}

func (r receipt) String() string {
	return fmt.Sprintf("%d killed, %d survivors, proven %v, %d ms", r.Killed, r.Survivors, r.Proven, r.ElapsedMS)
}

// clean reports whether the receipt is a proof.
func (r receipt) clean() bool { return r.Proven && r.Survivors == 0 }

func (e ended) exited(code int) bool {
	return e.Outcome == "exited" && e.ExitCode != nil && *e.ExitCode == code
}

func (e ended) String() string {
	text := e.Outcome
	if e.ExitCode != nil {
		text += fmt.Sprintf(" %d", *e.ExitCode)
	}
	return strings.TrimSpace(text + " " + e.Signal + " " + e.Error + " " + strings.Join(e.Hints, ", ") + "; clean-up: " + e.Cleanup.String())
}

// exec runs one command and waits for it.
func (t *tenant) exec(ctx context.Context, command string) (ended, mcpclient.Answer, error) {
	return t.execWith(ctx, map[string]any{"command": command})
}

func (t *tenant) execWith(ctx context.Context, args map[string]any) (e ended, a mcpclient.Answer, err error) {
	a, err = t.call(ctx, "exec", args)
	if err != nil {
		return e, a, err
	}
	a.Into(&e)
	if a.IsError && e.Outcome == "" {
		e.Error = a.Text
	}
	return e, a, nil
}

// start starts a job.
func (t *tenant) start(ctx context.Context, command string) (string, error) {
	a, err := t.call(ctx, "job_exec", map[string]any{"command": command})
	if err != nil {
		return "", err
	}
	var started struct {
		JobID string `json:"job_id"`
	}
	a.Into(&started)
	if a.IsError || started.JobID == "" {
		return "", fmt.Errorf("cannot start a job: %s", a.Text)
	}
	return started.JobID, nil
}

// A page is one job_poll answer.
type page struct {
	State   string
	Chunks  []struct{ Text, Base64 string }
	Next    json.Number `json:"next_cursor"`
	Gap     bool
	Dropped int64 `json:"dropped_bytes"`
	Result  *ended
}

func (p page) text() string {
	var b strings.Builder
	for _, chunk := range p.Chunks {
		b.WriteString(chunk.Text)
	}
	return b.String()
}

// A job is one job that is being read.
type job struct {
	*tenant
	id     string
	cursor json.Number
	text   string
	live   int // pages of news while it ran
	end    *ended
}

// poll reads what is new, waiting a little for it.
func (j *job) poll(ctx context.Context) error {
	if j.cursor == "" {
		j.cursor = "0"
	}
	a, err := j.call(ctx, "job_poll", map[string]any{"job_id": j.id, "cursor": j.cursor, "wait_ms": 2000})
	if err != nil {
		return err
	}
	if a.IsError {
		return fmt.Errorf("cannot poll %s: %s", j.id, a.Text)
	}
	var p page
	a.Into(&p)
	j.text += p.text()
	j.cursor = p.Next
	if p.State == "running" && len(p.Chunks) > 0 {
		j.live++
	}
	j.end = p.Result
	return nil
}

// errNotYet is a job that did not say or end what was waited for.
var errNotYet = errors.New("it did not happen in time")

// until polls until done says so or the job has ended.
func (j *job) until(ctx context.Context, most time.Duration, done func(*job) bool) error {
	for deadline := time.Now().Add(most); ; {
		if err := j.poll(ctx); err != nil {
			return err
		}
		switch {
		case j.end != nil || done(j):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w (%v): the job wrote %.200q", errNotYet, most, j.text)
		}
	}
}

// finish polls to the job's end.
func (j *job) finish(ctx context.Context, most time.Duration) error {
	return j.until(ctx, most, func(*job) bool { return false })
}

func (j *job) cancel(ctx context.Context) error {
	a, err := j.call(ctx, "job_cancel", map[string]any{"job_id": j.id})
	if err == nil && a.IsError {
		err = fmt.Errorf("cannot cancel %s: %s", j.id, a.Text)
	}
	return err
}

// run starts a job to be read.
func (t *tenant) run(ctx context.Context, command string) (*job, error) {
	id, err := t.start(ctx, command)
	return &job{tenant: t, id: id}, err
}
