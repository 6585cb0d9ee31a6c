package workloop

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"playground/record"
	"playground/tenancy"
	"playground/workloop/loop"
	"playground/workloop/tier"
	"playground/workloop/tool"
)

// Bounds of a start.
const (
	maxGoal      = 64 << 10
	maxReads     = 64
	maxToolNames = 64
	maxWallClock = 30 * 24 * 3600 // seconds
	maxBudget    = 1e6            // US dollars
	tenantDID    = "did:sync:user:"
	memberFolder = "members" // below the data folder: one folder a tenant
)

// A plan is a start that was resolved: all that is decided once and held for the whole run.
type plan struct {
	principal string
	life      string // tells the bearers of one name apart
	actor     string
	operator  bool // the run is for the operator
	tenant    string
	tier      tier.Name
	limits    tier.Limits
	transport tier.Transport
	goal      string
	model     string
	maxTurns  int           // tier.None is no ceiling
	wallClock time.Duration // 0 is no ceiling
	tokens    int64         // 0 is no ceiling
	budget    *float64      // nil is no ceiling
	granted   []tool.Definition
	narrowed  []string
	forbidden []string
	reads     []string
	workspace string
	source    string
	escape    *Escape
}

// resolve decides everything about a start but whether there is room for it.
func (e *Engine) resolve(ctx context.Context, r StartRequest) (*plan, error) {
	p := &plan{principal: r.Principal, actor: r.Actor, goal: r.Goal, source: r.SourceThread, escape: r.Escape}
	if p.escape != nil {
		p.principal, p.actor = EscapePrincipal, EscapePrincipal
	}
	if p.principal == "" {
		p.principal = e.o.Operator
	}
	if p.actor == "" {
		p.actor = p.principal
	}
	p.operator = p.principal == e.o.Operator && p.principal != ""
	if err := checkStart(r, p); err != nil {
		return nil, err
	}
	if name, ok := strings.CutPrefix(p.principal, tenantDID); ok && !p.operator && tenancy.ValidName(name) == nil {
		p.tenant = name
	}
	p.life = e.index.life(p.principal)
	var err error
	if p.tier, p.limits, err = e.settings.tierOf(ctx, p.principal); err != nil {
		return nil, unwritten(err)
	}
	if p.transport, err = e.settings.transport(ctx, p.operator); err != nil {
		return nil, unwritten(err)
	}
	if e.o.Broker != nil {
		p.model = e.o.Broker.Model()
	}
	if r.Model != "" {
		p.model = r.Model
	}
	if p.escape != nil {
		p.confine()
	}
	p.clamp(r)
	if p.operator && p.transport == tier.InProcess && e.o.HostTools { // nobody else learns of a folder of the host
		p.workspace = cmp.Or(r.Workspace, e.o.Workspace)
		if info, err := os.Stat(r.Workspace); r.Workspace != "" && (err != nil || !info.IsDir()) {
			return nil, invalid("workspace %.200q is not a folder that the daemon can see", r.Workspace)
		}
	}
	p.reads = slices.Compact(slices.Sorted(slices.Values(r.Reads)))
	if err := e.covers(r.Caller, p); err != nil {
		return nil, err
	}
	if err := e.priced(p); err != nil {
		return nil, err
	}
	p.forbidden = slices.Compact(slices.Sorted(slices.Values(r.Forbidden)))
	if err := p.reach(e.facts(p), r.Tools); err != nil {
		return nil, err
	}
	return p, nil
}

// checkStart looks at what a request says, without the log.
func checkStart(r StartRequest, p *plan) error {
	switch {
	case strings.TrimSpace(r.Goal) == "":
		return refuse(CodeMissingField, http.StatusBadRequest, "goal is missing")
	case len(r.Goal) > maxGoal:
		return invalid("goal has %d bytes, the limit is %d", len(r.Goal), maxGoal)
	case p.principal == "":
		return refuse(CodeMissingField, http.StatusBadRequest, "principal is missing, and no operator is configured")
	case r.MaxTurns != nil && *r.MaxTurns < 1:
		return invalid("max_turns must be at least 1")
	case r.BudgetUSD != nil && !(*r.BudgetUSD > 0 && *r.BudgetUSD <= maxBudget):
		return invalid("budget_usd must be more than 0, and at most %.0f", maxBudget)
	case r.TokenBudget != nil && *r.TokenBudget < 1:
		return invalid("token_budget must be at least 1")
	case r.WallClockSecs != nil && (*r.WallClockSecs < 1 || *r.WallClockSecs > maxWallClock):
		return invalid("wall_clock_secs must be between 1 and %d", maxWallClock)
	case len(r.Tools) > maxToolNames || len(r.Forbidden) > maxToolNames:
		return invalid("at most %d tools can be named", maxToolNames)
	case len(r.Reads) > maxReads:
		return invalid("at most %d threads can be read", maxReads)
	case r.Workspace != "" && !filepath.IsAbs(r.Workspace):
		return invalid("workspace must be an absolute path")
	}
	for _, did := range []string{p.principal, p.actor} {
		if err := record.ValidActor(did); err != nil {
			return invalid("%s", err.Error())
		}
		if did == record.EngineDID {
			return invalid("the engine's own DID cannot run a loop")
		}
		if did == EscapePrincipal && r.Escape == nil {
			return invalid("%s is for the escape suite alone", EscapePrincipal)
		}
	}
	for _, name := range r.Forbidden {
		if known := tool.Names(); !slices.Contains(known, name) {
			return hinted(invalid("forbidden_tools names %.80q, and there is no such tool", name), "the tools are %s", strings.Join(known, ", "))
		}
	}
	for _, thread := range append(slices.Clone(r.Reads), r.SourceThread) {
		if thread != "" && record.ValidThread(thread) != nil {
			return invalid("%.80q is not a thread", thread)
		}
	}
	return nil
}

// clamp sets the ceilings: what was asked for, and never more than the tier has.
func (p *plan) clamp(r StartRequest) {
	p.maxTurns = p.limits.MaxTurns
	if r.MaxTurns != nil && (p.maxTurns == tier.None || *r.MaxTurns < p.maxTurns) {
		p.maxTurns = *r.MaxTurns
	}
	seconds := p.limits.WallClockSecs
	if r.WallClockSecs != nil && (seconds == tier.None || *r.WallClockSecs < seconds) {
		seconds = *r.WallClockSecs
	}
	if seconds != tier.None {
		p.wallClock = time.Duration(min(seconds, maxWallClock)) * time.Second
	}
	tokens := p.limits.TokenBudget
	if r.TokenBudget != nil && (tokens == tier.None || *r.TokenBudget < tokens) {
		tokens = *r.TokenBudget
	}
	if tokens != tier.None {
		p.tokens = tokens
	}
	switch {
	case r.BudgetUSD != nil:
		budget := *r.BudgetUSD
		p.budget = &budget
	case p.transport == tier.Sandboxed:
		budget := p.limits.DefaultBudgetUSD
		p.budget = &budget
	}
}

// covers refuses reads that whoever asks cannot give: a member's run reads what is of its own principal, and what the operator adds.
func (e *Engine) covers(caller string, p *plan) error {
	if p.operator || caller != "" && caller == e.o.Operator {
		return nil
	}
	for _, thread := range p.reads {
		if n, ok := e.index.get(thread); !ok || !p.owns(n) {
			return refuse(loop.CodeReadsNotCovered, http.StatusForbidden, "thread %.80q is not of a run for %s", thread, p.principal)
		}
	}
	return nil
}

// priced refuses a model that nobody can count for: under a ceiling the first call would be refused.
func (e *Engine) priced(p *plan) error {
	if e.o.Broker == nil || p.budget == nil || p.escape != nil {
		return nil
	}
	if _, known := e.o.Broker.Price(p.model); !known {
		return hinted(invalid("the price of model %.100q is not known, so it cannot be held to a budget", p.model), "name another model, or give it a price in work.prices of playground.toml")
	}
	return nil
}

// facts decide which sets of tools a run may have.
func (e *Engine) facts(p *plan) tool.Facts {
	return tool.Facts{
		Operator:  p.operator,
		InProcess: p.transport == tier.InProcess,
		Data:      e.o.DataDir != "",
		Host:      p.workspace != "",
		Tenant:    e.o.Sandbox != nil && p.tenant != "",
	}
}

// reach sets what the run may call: what its tier may have and, where names is not nil, no more than those. A sandboxed run is not
// offered what only the daemon's own handles can serve; that is narrowed, not refused.
func (p *plan) reach(facts tool.Facts, names []string) error {
	available := slices.DeleteFunc(tool.Available(facts), func(d tool.Definition) bool { return slices.Contains(p.limits.Forbidden, d.Name) })
	for _, name := range names {
		if !slices.ContainsFunc(available, func(d tool.Definition) bool { return d.Name == name }) {
			reach := []string{}
			for _, d := range available {
				reach = append(reach, d.Name)
			}
			return hinted(refuse(loop.CodeToolNotInReach, http.StatusForbidden, "tool %.80q is not in reach of a run of tier %s with transport %s", name, p.tier, p.transport),
				"it may have %s", strings.Join(reach, ", "))
		}
	}
	p.granted, p.narrowed = nil, []string{}
	for _, d := range available {
		switch {
		case names == nil && d.OnRequest, names != nil && !slices.Contains(names, d.Name):
		case p.transport == tier.Sandboxed && d.Domain == loop.Trusted:
			p.narrowed = append(p.narrowed, d.Name)
		default:
			p.granted = append(p.granted, d)
		}
	}
	return nil
}

// offered are the tools that the model is told of: the reach without what the request itself forbids.
func (p *plan) offered() []loop.Tool {
	offered := []loop.Tool{}
	for _, d := range p.granted {
		if !slices.Contains(p.forbidden, d.Name) {
			offered = append(offered, d.Tool)
		}
	}
	return offered
}

// names are the names of the offered tools.
func (p *plan) names() []string {
	names := []string{}
	for _, t := range p.offered() {
		names = append(names, t.Name)
	}
	return names
}

// granting returns the definition of a granted tool.
func (p *plan) granting(name string) (tool.Definition, bool) {
	i := slices.IndexFunc(p.granted, func(d tool.Definition) bool { return d.Name == name })
	if i < 0 {
		return tool.Definition{}, false
	}
	return p.granted[i], true
}

// estimate is what a run of this plan costs at most, or its tier's usual run where nothing bounds it.
func (p *plan) estimate() float64 {
	if p.budget != nil {
		return *p.budget
	}
	return p.limits.DefaultBudgetUSD
}

// config is the plan's ceilings as they are served.
func (p *plan) config() EffectiveConfig {
	c := EffectiveConfig{Forbidden: p.forbiddenAll()}
	if p.maxTurns != tier.None {
		c.MaxTurns = &p.maxTurns
	}
	if p.tokens > 0 {
		c.TokenBudget = &p.tokens
	}
	if p.wallClock > 0 {
		seconds := int64(math.Ceil(p.wallClock.Seconds()))
		c.WallClockSecs = &seconds
	}
	return c
}

// forbiddenAll are the tools that the tier or the request forbids.
func (p *plan) forbiddenAll() []string {
	all := append(slices.Clone(p.limits.Forbidden), p.forbidden...)
	slices.Sort(all)
	return append([]string{}, slices.Compact(all)...)
}

// anchor is the body of the record that opens a run.
func (p *plan) anchor() anchor {
	config := p.config()
	a := anchor{
		Kind: KindLoop, Goal: p.goal, Principal: p.principal, Actor: p.actor, Tier: p.tier, Transport: p.transport, Model: p.model,
		Tools: p.names(), Granted: p.grantedNames(), Narrowed: p.narrowed, Forbidden: p.forbidden, MaxTurns: config.MaxTurns,
		WallClockSecs: config.WallClockSecs, TokenBudget: config.TokenBudget, TaskBudget: p.budget, BudgetUSD: p.budget,
		Reads: append([]string{}, p.reads...), Workspace: p.workspace,
	}
	if a.Forbidden == nil {
		a.Forbidden = []string{}
	}
	if p.source != "" {
		a.SourceThread = &p.source
	}
	return a
}

func (p *plan) grantedNames() []string {
	names := []string{}
	for _, d := range p.granted {
		names = append(names, d.Name)
	}
	return names
}

// replan is the plan of a run that goes on: what its anchor says, held to what the instance and the tier have now.
func (e *Engine) replan(ctx context.Context, a anchor) (*plan, error) {
	p := &plan{
		principal: a.Principal, life: e.index.life(a.Principal), actor: a.Actor, operator: a.Principal == e.o.Operator, transport: a.Transport, goal: a.Goal, model: a.Model,
		maxTurns: tier.None, budget: a.BudgetUSD, forbidden: a.Forbidden, reads: a.Reads, workspace: a.Workspace,
	}
	if name, ok := strings.CutPrefix(p.principal, tenantDID); ok && !p.operator && tenancy.ValidName(name) == nil {
		p.tenant = name
	}
	var err error
	if p.tier, p.limits, err = e.settings.tierOf(ctx, p.principal); err != nil {
		return nil, unwritten(err)
	}
	if a.MaxTurns != nil {
		p.maxTurns = *a.MaxTurns
	}
	if a.WallClockSecs != nil {
		p.wallClock = time.Duration(*a.WallClockSecs) * time.Second
	}
	if a.TokenBudget != nil {
		p.tokens = *a.TokenBudget
	}
	if a.SourceThread != nil {
		p.source = *a.SourceThread
	}
	for _, d := range tool.Available(e.facts(p)) {
		if slices.Contains(a.Granted, d.Name) && !slices.Contains(p.limits.Forbidden, d.Name) {
			p.granted = append(p.granted, d)
		}
	}
	p.narrowed = append([]string{}, a.Narrowed...)
	return p, nil
}
