package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A workplay is the play of the work loop: a member's runs, watched through the tool and through /v1 with a token.
type workplay struct {
	*world
	api    *v1
	token  string // its public id
	member string // DID
	tenant string
}

// runEnd is how long a run may take that does nothing but to follow its script.
const runEnd = time.Minute

// work shows that runs of members are confined, judged call by call, recorded, and ended, whatever ends them.
func (w *world) work(ctx context.Context) error {
	p, err := w.newWorkplay(ctx)
	if err != nil {
		return err
	}
	err = p.steps(ctx, p.settings, p.byTool, p.byNetwork, p.switched, p.ruled, p.stopped, p.inspected, p.workerKilled, p.reaperKilled, p.daemonKilled, p.daemonRestarted,
		p.verified)
	return errors.Join(err, p.revoke(ctx))
}

// newWorkplay makes the member and a token of the operator.
func (w *world) newWorkplay(ctx context.Context) (*workplay, error) {
	c, err := w.provision(ctx, "kit-work")
	if err != nil {
		return nil, err
	}
	p := &workplay{world: w, tenant: w.made[len(w.made)-1].name}
	p.member = memberDID + p.tenant
	var minted struct {
		Token string
		Info  struct{ ID string }
	}
	if err := w.operator(ctx, &minted, "operator", "token", "create", "kit work"); err != nil {
		return nil, err
	}
	p.token = minted.Info.ID
	if p.api, err = newV1(w.options.endpoint, minted.Token); err != nil {
		return nil, err
	}
	p.api.client.Timeout = w.limit(p.api.client.Timeout)
	for name, token := range map[string]string{"no token": "", "a tenant's token": c.Token, "a wrong token": minted.Token + "x"} {
		stranger := *p.api
		stranger.token = token
		err := stranger.do(ctx, http.MethodGet, "/v1/runs", "", nil, nil)
		w.report.check(refused(err).Status == http.StatusUnauthorized, "work: /v1 refuses "+name, "401", "%v", err)
	}
	return p, nil
}

// revoke takes the token away: the next request is refused.
func (p *workplay) revoke(ctx context.Context) error {
	if err := p.operator(ctx, nil, "operator", "token", "revoke", p.token); err != nil {
		return err
	}
	err := p.api.do(ctx, http.MethodGet, "/v1/runs", "", nil, nil)
	p.report.check(refused(err).Status == http.StatusUnauthorized, "work: a revoked token is refused at once", "401", "%v", err)
	return nil
}

// configure writes a configuration record with the operator's tool.
func (p *workplay) configure(ctx context.Context, body string) error {
	return p.operator(ctx, nil, "learn", "--thread", "th_engine_config", "--actor", engineDID, "--body", body)
}

// paid gives the member the ceilings of tier paid: those of a new one would not do for all of the play's runs.
func (p *workplay) paid(ctx context.Context) error {
	return p.configure(ctx, fmt.Sprintf(`{"kind":"core.engine.config.v1","topic":"actor_tier","actor":%q,"tier":"paid"}`, p.member))
}

// An engineHealth is what the instance says of itself.
type engineHealth struct {
	WorkLoop struct {
		Transport string
		Member    string `json:"member_transport"`
		Capacity  int    `json:"admission_capacity"`
		Available int    `json:"admission_available"`
	} `json:"work_loop"`
}

func (p *workplay) health(ctx context.Context) (h engineHealth, err error) {
	return h, p.api.do(ctx, http.MethodGet, "/v1/engine/health", "", nil, &h)
}

// settings looks at what the instance took, gives the member the ceilings of tier paid, and tries an expression that is none.
func (p *workplay) settings(ctx context.Context) error {
	h, err := p.health(ctx)
	if err != nil {
		return err
	}
	p.report.check(h.WorkLoop.Transport == "in_process" && h.WorkLoop.Member == "sandboxed" && h.WorkLoop.Capacity == 1, "work: the instance says what it took",
		"operator in_process, members sandboxed, capacity 1", "%+v", h.WorkLoop)
	if err := p.paid(ctx); err != nil {
		return err
	}
	var preview struct {
		Tier, Transport string
		Denied          bool `json:"would_be_denied"`
	}
	err = p.api.do(ctx, http.MethodPost, "/v1/work/loop/preview", p.member, map[string]any{"goal": goalNote}, &preview)
	p.report.check(err == nil && preview.Tier == "paid" && preview.Transport == "sandboxed" && !preview.Denied, "work: a config record changes the member's tier at once",
		"a preview with tier paid, transport sandboxed, not denied", "%+v %v", preview, err)
	err = p.operator(ctx, nil, "config", "add-permission-rule", "--name", "kit-broken", "--action", "deny", "--expression", "resource ==")
	p.report.check(err != nil && strings.Contains(err.Error(), "1:"), "work: a rule that does not compile is refused, with the place of its mistake", "an error with line and column", "%v", err)
	return nil
}

// confirm checks the row and the records of a run that noted "transport-check".
func (p *workplay) confirm(ctx context.Context, name string, r runRow) error {
	p.report.check(r.State == "done", name+" ends as done", "done", "%s", r)
	p.report.check(r.Transport == "sandboxed" && r.OK >= 1, name+": confined, and its tool was called", "transport sandboxed, tool_calls_ok at least 1", "%s", r)
	list, err := p.api.records(ctx, r.Thread)
	if err != nil {
		return err
	}
	notes, outcomes, seen := 0, 0, ""
	for _, one := range list {
		switch {
		case one.Body.Kind == kindNote && one.Body.Text == "transport-check" && one.Actor == r.Principal:
			notes++
		case one.Body.Kind == kindOutcome:
			seen = fmt.Sprintf("%s by %s, transport %s, %d ok", one.Body.State, one.Actor, one.Body.Transport, one.Body.OK)
			if one.Actor == engineDID && one.Body.Transport == "sandboxed" && one.Body.OK >= 1 {
				outcomes++
			}
		}
	}
	p.report.check(notes == 1, name+": the note is on its thread", "one, of the principal's", "%d in %d records", notes, len(list))
	p.report.check(outcomes == 1, name+": the outcome is the kernel's", "one by "+engineDID+", sandboxed, with a call that succeeded", "%d; the last is %s", outcomes, seen)
	return nil
}

// byTool is the verification with nothing but the operator's tool.
func (p *workplay) byTool(ctx context.Context) error {
	var r runRow
	err := p.operator(ctx, &r, "run", goalNote, "--member", p.tenant, "--max-turns", "3", "--budget", "0.05", "--timeout", p.limit(runEnd).String())
	if err != nil {
		p.report.check(false, "work: playground run", "exit 0", "%v", err)
		return nil
	}
	p.report.check(slices.Contains(r.Narrowed, "read_file"), "work: the row names what was withheld", "narrowed with the tools of the data folder", "%v", r.Narrowed)
	if err := p.confirm(ctx, "work: a member's run by the tool", r); err != nil {
		return err
	}
	var list struct{ Data []workRecord }
	err = p.operator(ctx, &list, "thread", "records", r.Thread)
	found := slices.ContainsFunc(list.Data, func(one workRecord) bool { return one.Body.Kind == kindNote && one.Body.Text == "transport-check" })
	p.report.check(err == nil && found, "work: playground thread records shows the note", "transport-check", "%d records, found %v, %v", len(list.Data), found, err)
	p.nothingLeft("work: after the run")
	return p.recorded(ctx, r.Thread)
}

// recorded writes a record by hand, and finds it and the run again.
func (p *workplay) recorded(ctx context.Context, run string) error {
	var written struct{ ID, Thread, Actor string }
	err := p.operator(ctx, &written, "know", "the kit was here", "--body", `{"topic":"kit"}`)
	p.report.check(err == nil && len(written.ID) == 64 && strings.HasPrefix(written.Thread, "th_"), "work: playground know writes a record", "an id and a thread", "%+v %v", written, err)
	var thread struct {
		Records      int64
		Participants []string
	}
	err = p.operator(ctx, &thread, "thread", "show", written.Thread)
	p.report.check(err == nil && thread.Records == 1 && slices.Equal(thread.Participants, []string{written.Actor}), "work: playground thread show knows its thread", "1 record of its author", "%+v %v", thread, err)
	var list struct{ Data []runRow }
	err = p.operator(ctx, &list, "runs", "list", "--actor", p.member, "--state", "done")
	p.report.check(err == nil && len(list.Data) == 1 && list.Data[0].Thread == run, "work: playground runs list shows the member's run", "one, done", "%v %v", list.Data, err)
	return nil
}

// nothingLeft checks that the host has nothing of a worker any more.
func (p *workplay) nothingLeft(after string) {
	left := p.host.left(p.limit(30 * time.Second))
	p.report.check(left == "", after+": nothing of a worker is left", "no process, jail or rctl rule", "%s", left)
}

// byNetwork is the same over /v1, as a program would do it.
func (p *workplay) byNetwork(ctx context.Context) error {
	thread, err := p.api.start(ctx, p.member, goalNote)
	if err != nil {
		p.report.check(false, "work: POST /v1/work/loop", "201 and a thread", "%v", err)
		return nil
	}
	r, err := p.api.ended(ctx, thread, p.limit(runEnd))
	if err != nil {
		p.report.check(false, "work: a member's run over /v1 ends", "an end", "%v", err)
		return nil
	}
	return p.confirm(ctx, "work: a member's run over /v1", r)
}

// switched moves the operator's own runs into the sandbox and back, each with one record.
func (p *workplay) switched(ctx context.Context) error {
	transport := func(value string) error {
		return p.configure(ctx, fmt.Sprintf(`{"kind":"core.engine.config.v1","topic":"work_loop_transport","transport":%q}`, value))
	}
	if err := transport("sandboxed"); err != nil {
		return err
	}
	h, err := p.health(ctx)
	p.report.check(err == nil && h.WorkLoop.Transport == "sandboxed", "work: one record moves the operator's runs into the sandbox", "health says sandboxed", "%+v %v", h.WorkLoop, err)
	thread, err := p.api.start(ctx, "", goalNote)
	var r runRow
	if err == nil {
		r, err = p.api.ended(ctx, thread, p.limit(runEnd))
	}
	p.report.check(err == nil && r.State == "done" && r.Transport == "sandboxed", "work: the operator's run then is confined", "done, sandboxed", "%s %v", r, err)
	if err := transport("in_process"); err != nil {
		return err
	}
	h, err = p.health(ctx)
	p.report.check(err == nil && h.WorkLoop.Transport == "in_process", "work: and one record moves them back", "health says in_process", "%+v %v", h.WorkLoop, err)
	return nil
}

// underWay starts a run and waits for its first note.
func (p *workplay) underWay(ctx context.Context, goal, first string) (string, error) {
	thread, err := p.api.start(ctx, p.member, goal)
	if err != nil {
		return "", err
	}
	return thread, p.api.said(ctx, thread, first, p.limit(runEnd))
}

// ruled adds a rule while a run is going: the run's next call is denied by it.
func (p *workplay) ruled(ctx context.Context) error {
	rule := []string{"config", "add-permission-rule", "--name", "kit-no-notes", "--action", "deny", "--priority", "100", "--expression", `resource == "tool:record_note"`}
	thread, err := p.underWay(ctx, goalSlow, "slow 1")
	if err != nil {
		return err
	}
	if err := p.operator(ctx, nil, rule...); err != nil {
		return err
	}
	r, err := p.api.ended(ctx, thread, p.limit(runEnd))
	if err == nil {
		var list []workRecord
		list, err = p.api.records(ctx, thread)
		var verdicts []string
		for _, one := range list {
			if one.Body.Kind == kindVerdict {
				verdicts = append(verdicts, strings.TrimSpace(one.Body.Decision+" "+one.Body.Layer+" "+one.Body.Rule))
			}
		}
		p.report.check(err == nil && len(verdicts) == 2 && strings.HasPrefix(verdicts[0], "allow") && strings.HasPrefix(verdicts[1], "deny") && strings.HasSuffix(verdicts[1], "kit-no-notes"),
			"work: a rule that is written while a run goes on denies its next call", "verdicts allow, then deny by kit-no-notes", "%q; %s", verdicts, r)
	}
	offErr := p.operator(ctx, nil, append(rule, "--disable")...) // or later runs would find it
	p.report.check(err == nil && r.OK == 1 && r.Failed == 1, "work: the run's row counts both calls", "1 ok, 1 failed", "%s %v", r, err)
	return errors.Join(err, offErr)
}

// stopped stops a run at its next step.
func (p *workplay) stopped(ctx context.Context) error {
	thread, err := p.underWay(ctx, goalSlow, "slow 1")
	if err != nil {
		return err
	}
	if err := p.operator(ctx, nil, "runs", "stop", thread); err != nil {
		return err
	}
	r, err := p.api.ended(ctx, thread, p.limit(runEnd))
	p.report.check(err == nil && r.State == "stopped" && r.OK == 1, "work: a stop ends the run at its next step", "stopped, 1 call ok", "%s %v", r, err)
	p.nothingLeft("work: after the stop")
	return nil
}

// program runs a program of the base system and returns what it prints.
func program(ctx context.Context, path string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", path, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
