package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/mcpclient"
	"playground/version"
)

// bundleName is what the play's faculty is called.
const bundleName = "notebook"

// A facultyplay is the play of one faculty worker, from its build to its proved end.
type facultyplay struct {
	*world
	created created
	tenant  string
	address string // where the worker serves
	source  string
	files   facultyFiles
	first   string // fingerprint of the first build
}

// A facultyWorker is a worker as "playground faculty list" shows it.
type facultyWorker struct {
	ID       string
	State    string
	Run      string
	Pid      int
	Restarts int
	Problem  string
	Health   *struct {
		OK      bool
		Tools   int
		Problem string
	}
	LastExit *struct {
		Result struct{ Cleanup receipt }
	} `json:"last_exit"`
}

// String says how the worker is.
func (f facultyWorker) String() string {
	text := fmt.Sprintf("%s, pid %d, %d restarts %s", f.State, f.Pid, f.Restarts, f.Problem)
	if f.Health != nil {
		text += fmt.Sprintf(", health %v with %d tools %s", f.Health.OK, f.Health.Tools, f.Health.Problem)
	}
	if f.LastExit != nil {
		text += ", last clean-up: " + f.LastExit.Result.Cleanup.String()
	}
	return text
}

// faculty brings a faculty to a tenant, speaks to it through the gateway, and ends it, in all the ways there are. It changes the
// configuration; whoever runs it puts that back.
func (w *world) faculty(ctx context.Context) error {
	p := &facultyplay{world: w}
	err := p.play(ctx)
	if err != nil {
		w.report.check(false, "faculty: goes to its end", "no error", "%v", err)
	}
	return p.gone(ctx)
}

func (p *facultyplay) play(ctx context.Context) error {
	return p.steps(ctx, p.build, p.install, p.define, p.inside, p.serve, p.notes, p.crashed, p.keeperKilled, p.reaperKilled, p.changed, p.stopped)
}

// build makes the tenant, and builds what is built already: the command only copies, so that no compiler is needed.
func (p *facultyplay) build(ctx context.Context) (err error) {
	var network []string
	if p.host.freebsd {
		network = []string{"--network", "address"}
	}
	if p.created, err = p.provision(ctx, "kit-notes", network...); err != nil {
		return err
	}
	p.tenant = p.made[len(p.made)-1].name
	p.address = "127.0.0.1:9001"
	if p.host.freebsd {
		p.address = p.created.User.Sandbox.Address + ":9001"
		p.report.check(strings.HasPrefix(p.created.User.Sandbox.Address, "127."), "faculty: a tenant with network address gets one", "a loopback address", "%q", p.created.User.Sandbox.Address)
	}
	p.source = filepath.Join(p.options.folder, bundleName)
	if err := os.Mkdir(p.source, 0o755); err != nil {
		return err
	}
	program, err := os.ReadFile(p.options.notebook)
	if err != nil {
		return fmt.Errorf("cannot read the faculty: %w", err)
	}
	if err := os.WriteFile(filepath.Join(p.source, bundleName), program, 0o755); err != nil {
		return err
	}
	c, err := p.cohort(ctx)
	p.first = c.Fingerprint
	p.report.check(err == nil && len(c.Fingerprint) == 64 && !c.Reused, "faculty: build with a command, in a sandbox of its own", "a new cohort", "%+v %v", c, err)
	if err != nil {
		return err
	}
	again, err := p.cohort(ctx)
	p.report.check(err == nil && again.Reused && again.Fingerprint == p.first, "faculty: the same source is built once", "reused", "%+v %v", again, err)
	left := p.host.left(p.limit(10 * time.Second))
	p.report.check(left == "", "faculty: the build's sandbox is thrown away", "no leaf jail or rctl rule", "%s", left)
	return nil
}

// A cohort is what "playground faculty build" prints.
type cohort struct {
	Fingerprint string
	Reused      bool
}

func (p *facultyplay) cohort(ctx context.Context) (c cohort, err error) {
	return c, p.operator(ctx, &c, "faculty", "build", p.source, "--name", bundleName, "--command", `cp notebook "$OUT/notebook"`, "--binary", bundleName)
}

func (p *facultyplay) install(ctx context.Context) error {
	err := p.operator(ctx, nil, "faculty", "install", bundleName, p.tenant)
	p.report.check(err == nil, "faculty: install into the tenant", "exit 0", "%v", err)
	if err != nil {
		return err
	}
	return p.current(ctx, "faculty: the tenant has the build", p.first)
}

// current checks which build the tenant has.
func (p *facultyplay) current(ctx context.Context, name, fingerprint string) error {
	var list struct {
		Installed []struct{ Tenant, Current, Previous string }
	}
	if err := p.operator(ctx, &list, "faculty", "cohorts"); err != nil {
		return err
	}
	seen := ""
	for _, one := range list.Installed {
		if one.Tenant == p.tenant {
			seen = one.Current
		}
	}
	p.report.check(seen == fingerprint && seen != "", name, fingerprint[:min(12, len(fingerprint))], "%s", seen)
	return nil
}

// define writes what an operator writes, and starts playground-facultyd.
func (p *facultyplay) define(ctx context.Context) (err error) {
	if p.files, err = p.writeFiles(ctx); err != nil {
		return err
	}
	err = p.operator(ctx, nil, "faculty", "check")
	p.report.check(err == nil, "faculty: playground faculty check", "exit 0", "%v", err)
	if err := p.service(ctx, "playground_facultyd", "onestart"); err != nil {
		p.report.check(false, "faculty: service playground_facultyd onestart", "exit 0", "%v", err)
		return err
	}
	p.keeperSeen(ctx)
	f, err := p.until(ctx, time.Minute, func(f facultyWorker) bool { return f.State == "running" })
	p.report.check(err == nil, "faculty: the worker is started", "running", "%s %v", f, err)
	return err
}

// serve turns playgroundd into the gateway.
func (p *facultyplay) serve(ctx context.Context) error {
	before, err := p.worker(ctx)
	if err != nil {
		return err
	}
	if err := p.service(ctx, "playground", "onerestart"); err != nil {
		p.report.check(false, "faculty: playgroundd with http.catalogue = workers", "it starts", "%v", err)
		return err
	}
	if err := p.operator(ctx, nil, "ready", "--timeout", "60s"); err != nil {
		return err
	}
	f, err := p.until(ctx, time.Minute, func(f facultyWorker) bool { return f.Health != nil && f.Health.OK })
	p.report.check(err == nil && f.Health != nil && f.Health.Tools == 2, "faculty: playgroundd sees that the worker serves", "health ok with 2 tools", "%s %v", f, err)
	p.report.check(f.Run == before.Run && f.Pid == before.Pid, "faculty: the worker lives through a restart of playgroundd", before.String(), "%s", f)
	return err
}

// worker returns the worker. The tool's status is 1 when a worker does not serve, which is no error here.
func (p *facultyplay) worker(ctx context.Context) (facultyWorker, error) {
	var list struct{ Workers []facultyWorker }
	err := p.operator(ctx, &list, "faculty", "list")
	i := slices.IndexFunc(list.Workers, func(f facultyWorker) bool { return f.ID == p.tenant })
	if i < 0 {
		return facultyWorker{}, errors.Join(err, fmt.Errorf("playground faculty list shows no worker of %s", p.tenant))
	}
	return list.Workers[i], nil
}

// until waits until the worker is as ok wants it.
func (p *facultyplay) until(ctx context.Context, most time.Duration, ok func(facultyWorker) bool) (f facultyWorker, err error) {
	for deadline := time.Now().Add(p.limit(most)); ; {
		f, err = p.worker(ctx)
		if err == nil && ok(f) {
			return f, nil
		}
		if time.Now().After(deadline) {
			return f, errors.Join(err, fmt.Errorf("it did not come to that within %v", p.limit(most)))
		}
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// served waits until another life of the worker than the given one serves.
func (p *facultyplay) served(ctx context.Context, life string) (facultyWorker, error) {
	return p.until(ctx, 90*time.Second, func(f facultyWorker) bool {
		return f.State == "running" && f.Run != life && f.Health != nil && f.Health.OK
	})
}

// speak connects to the gateway as the tenant's client with a version of the protocol.
func (p *facultyplay) speak(ctx context.Context, protocol string) (*mcp.ClientSession, error) {
	transport := &mcp.StreamableClientTransport{Endpoint: p.options.endpoint, MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: mcpclient.Bearer{Token: p.created.Token, Next: &http.Transport{}}}}
	client := mcp.NewClient(&mcp.Implementation{Name: "playground-kit", Version: version.String()}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	return client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
}

// The versions of the protocol with sessions and without.
var protocols = [...]string{"2025-11-25", "2026-07-28"}

// notes appends a note in each era of the protocol, and finds both in each.
func (p *facultyplay) notes(ctx context.Context) error {
	for i, protocol := range protocols {
		session, err := p.speak(ctx, protocol)
		if err != nil {
			p.report.check(false, "gateway: a client of "+protocol+" connects", "it connects", "%v", err)
			continue
		}
		spoken := session.InitializeResult().ProtocolVersion
		tools, err := session.ListTools(ctx, nil)
		var names []string
		if err == nil {
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
			}
			slices.Sort(names)
		}
		p.report.check(spoken == protocol && slices.Equal(names, []string{"append_note", "search_notes"}), "gateway: the worker's own tools, and no others, in "+protocol,
			"append_note and search_notes", "%v in %s, %v", names, spoken, err)
		appended, err := mcpclient.Call(ctx, session, "append_note", map[string]any{"text": "kit note " + protocol})
		p.report.check(err == nil && !appended.IsError, "gateway: append_note in "+protocol, "noted", "%s %v", appended.Text, err)
		p.found(ctx, session, "gateway: search_notes in "+protocol, i+1)
		_ = session.Close() // the next era's is another
	}
	stranger := *p
	stranger.created.Token = "pg_none"
	_, err := stranger.speak(ctx, protocols[0])
	p.report.check(err != nil && strings.Contains(err.Error(), "Unauthorized"), "gateway: a wrong token is refused", "Unauthorized", "%v", err)
	p.latency(ctx)
	return nil
}

// found checks how many of the play's notes there are.
func (p *facultyplay) found(ctx context.Context, session *mcp.ClientSession, name string, want int) {
	answer, err := mcpclient.Call(ctx, session, "search_notes", map[string]any{"query": "kit note"})
	var notes struct{ Total int }
	answer.Into(&notes)
	p.report.check(err == nil && notes.Total == want, name, fmt.Sprintf("%d notes", want), "%d: %s %v", notes.Total, answer.Text, err)
}

// kept checks after a change of the worker that it serves and has what it had.
func (p *facultyplay) kept(ctx context.Context, name string) {
	session, err := p.speak(ctx, protocols[1])
	if err != nil {
		p.report.check(false, name, "it connects", "%v", err)
		return
	}
	defer session.Close()
	p.found(ctx, session, name, len(protocols))
}

// stopped stops the worker with proof, starts it again, and breaks the definitions: what comes next must be able to stop it.
func (p *facultyplay) stopped(ctx context.Context) error {
	var list struct{ Workers []facultyWorker }
	err := p.operator(ctx, &list, "faculty", "stop", p.tenant)
	proven := len(list.Workers) == 1 && list.Workers[0].State == "stopped" && list.Workers[0].LastExit != nil && list.Workers[0].LastExit.Result.Cleanup.clean()
	p.report.check(err == nil && proven, "faculty: playground faculty stop", "stopped, proven", "%v %v", list.Workers, err)
	left := p.host.left(p.limit(30 * time.Second))
	p.report.check(left == "", "faculty: after the stop nothing of the worker is left", "no leaf jail or rctl rule", "%s", left)
	session, err := p.speak(ctx, protocols[1])
	if err == nil {
		_ = session.Close() // it should not have come to this
	}
	p.report.check(err != nil, "gateway: without its worker a tenant is told so", "an error", "%v", err)
	err = p.operator(ctx, nil, "faculty", "start", p.tenant)
	p.report.check(err == nil, "faculty: playground faculty start", "exit 0", "%v", err)
	return os.WriteFile(p.files.definitions, []byte("a mistake\n"), 0o600)
}

// gone stops the daemon, destroys the tenant, and looks for what is left.
func (p *facultyplay) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.limit(3*time.Minute))
	defer cancel()
	if p.files.definitions != "" {
		err := p.service(ctx, "playground_facultyd", "onestop")
		p.report.check(err == nil, "faculty: service playground_facultyd onestop, with a worker and definitions that are not valid any more", "exit 0", "%v", err)
	}
	left := p.host.left(p.limit(30 * time.Second))
	list, err := p.processes()
	p.report.check(left == "" && err == nil && len(list) == 0, "faculty: nothing of the worker is left", "no process, leaf jail or rctl rule", "%s; %d processes %v", left, len(list), err)
	p.close(ctx)
	if p.host.freebsd && p.created.User.Sandbox.Address != "" {
		out, err := exec.CommandContext(ctx, "/sbin/ifconfig", "lo0").CombinedOutput()
		p.report.check(err == nil && !strings.Contains(string(out), "inet "+p.created.User.Sandbox.Address+" "), "faculty: the tenant's address is taken away", "not on lo0", "%s %v", out, err)
	}
	return nil
}
