// Package tier knows what each class of principal may use: the built-in ceilings, the config records that change them while
// the daemon runs, who is in which class, and where a class's runs go. It folds bodies of records in the order they were
// written and keeps nothing, so whoever asks next sees what was written last.
package tier

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"playground/fault"
)

// A Name is the name of a tier.
type Name string

// The tiers. Operator belongs to the daemon's owner alone and cannot be given by a record.
const (
	Trial    Name = "trial"
	Paid     Name = "paid"
	Team     Name = "team"
	Operator Name = "operator"
)

// None is the value of a ceiling that is not there. A ceiling of 0 is one that nothing passes.
const None = -1

// The kind and the topics of the config records that this package folds.
const (
	Kind             = "core.engine.tier.v1"
	TopicActor       = "actor_tier"
	TopicOperator    = "work_loop_transport"
	TopicMembers     = "work_loop_transport_members"
	defaultMaxDepth  = 3
	defaultChildren  = 5
	defaultTreeLoops = 25
)

// Limits are the axes of one tier.
type Limits struct {
	MaxTurns         int
	WallClockSecs    int64
	TokenBudget      int64
	DefaultBudgetUSD float64 // of a sandboxed run that names none
	DailyCostCapUSD  float64
	DailyLoopCap     int64
	Concurrency      int
	MaxDepth         int
	MaxChildren      int
	MaxTreeLoops     int
	Forbidden        []string // tools that no record can grant
}

// Builtin returns the limits of a tier that no record has changed; an unknown name has those of Trial.
func Builtin(name Name) Limits {
	l := Limits{MaxDepth: defaultMaxDepth, MaxChildren: defaultChildren, MaxTreeLoops: defaultTreeLoops}
	switch name {
	case Operator:
		l.MaxTurns, l.WallClockSecs, l.TokenBudget = None, None, None
		l.DefaultBudgetUSD, l.DailyCostCapUSD, l.DailyLoopCap, l.Concurrency = 5, None, None, None
	case Team:
		l.MaxTurns, l.WallClockSecs, l.TokenBudget = 50, 1800, 1_000_000
		l.DefaultBudgetUSD, l.DailyCostCapUSD, l.DailyLoopCap, l.Concurrency = 2, 50, 2000, 20
		l.Forbidden = []string{"bash", "write_file"}
	case Paid:
		l.MaxTurns, l.WallClockSecs, l.TokenBudget = 16, 600, 200_000
		l.DefaultBudgetUSD, l.DailyCostCapUSD, l.DailyLoopCap, l.Concurrency = 1, 5, 200, 5
		l.Forbidden = []string{"bash", "write_file"}
	default:
		l.MaxTurns, l.WallClockSecs, l.TokenBudget = 5, 120, 20_000
		l.DefaultBudgetUSD, l.DailyCostCapUSD, l.DailyLoopCap, l.Concurrency = 0.25, 0.50, 10, 1
		l.Forbidden = []string{"bash", "write_file", "spawn"}
	}
	return l
}

// A Change is a tier record: the axes that it names, and no others.
type Change struct {
	Tier Name
	axes axes
}

// axes are the editable axes; nil is not named.
type axes struct {
	MaxTurns         *int     `json:"max_turns"`
	WallClockSecs    *int64   `json:"wall_clock_secs"`
	TokenBudget      *int64   `json:"token_budget"`
	DailyLoopCap     *int64   `json:"daily_loop_cap"`
	Concurrency      *int     `json:"concurrency"`
	MaxDepth         *int     `json:"max_depth"`
	MaxChildren      *int     `json:"max_children"`
	MaxTreeLoops     *int     `json:"max_tree_loops"`
	DailyCostCapUSD  *float64 `json:"daily_cost_cap_usd"`
	DefaultBudgetUSD *float64 `json:"default_budget_usd"`
}

// Parse reads the body of a tier record. An axis that is unknown, negative, or 0 where nothing could run is an error that
// names it.
func Parse(body json.RawMessage) (Change, error) {
	var in struct {
		Kind      string `json:"kind"`
		Topic     string `json:"topic"`
		Namespace string `json:"namespace"`
		Tier      Name   `json:"tier"`
		axes
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return Change{}, fault.New(fault.Invalid, "cannot read the tier record: %s", strings.TrimPrefix(err.Error(), "json: ")).
			WithHint("the axes are max_turns, wall_clock_secs, token_budget, daily_loop_cap, concurrency, max_depth, max_children, max_tree_loops, daily_cost_cap_usd, default_budget_usd")
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Change{}, fault.New(fault.Invalid, "cannot read the tier record: more than one value")
	}
	if !slices.Contains([]Name{Trial, Paid, Team, Operator}, in.Tier) {
		return Change{}, fault.New(fault.Invalid, "tier %.40q is unknown", string(in.Tier)).WithHint("the tiers are trial, paid, team and operator")
	}
	if err := in.check(); err != nil {
		return Change{}, err
	}
	return Change{Tier: in.Tier, axes: in.axes}, nil
}

func (a axes) check() error {
	least := map[string]struct{ value, least *float64 }{}
	add := func(name string, value *float64, min float64) {
		least[name] = struct{ value, least *float64 }{value, &min}
	}
	add("max_turns", number(a.MaxTurns), 1)
	add("wall_clock_secs", number(a.WallClockSecs), 1)
	add("token_budget", number(a.TokenBudget), 1)
	add("daily_loop_cap", number(a.DailyLoopCap), 0)
	add("concurrency", number(a.Concurrency), 0)
	add("max_depth", number(a.MaxDepth), 0)
	add("max_children", number(a.MaxChildren), 0)
	add("max_tree_loops", number(a.MaxTreeLoops), 0)
	add("daily_cost_cap_usd", a.DailyCostCapUSD, 0)
	for _, name := range slices.Sorted(maps.Keys(least)) {
		if axis := least[name]; axis.value != nil && *axis.value < *axis.least {
			return fault.New(fault.Invalid, "tier axis %s must be at least %g", name, *axis.least)
		}
	}
	if a.DefaultBudgetUSD != nil && *a.DefaultBudgetUSD <= 0 {
		return fault.New(fault.Invalid, "tier axis default_budget_usd must be more than 0")
	}
	return nil
}

func number[T int | int64](v *T) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v)
	return &f
}

// Fold returns the limits of a tier after the changes in bodies, the oldest first. What cannot be parsed changes nothing.
func Fold(name Name, bodies []json.RawMessage) Limits {
	l := Builtin(name)
	for _, body := range bodies {
		change, err := Parse(body)
		if err != nil || change.Tier != name {
			continue
		}
		a := change.axes
		set(&l.MaxTurns, a.MaxTurns)
		set(&l.WallClockSecs, a.WallClockSecs)
		set(&l.TokenBudget, a.TokenBudget)
		set(&l.DailyLoopCap, a.DailyLoopCap)
		set(&l.Concurrency, a.Concurrency)
		set(&l.MaxDepth, a.MaxDepth)
		set(&l.MaxChildren, a.MaxChildren)
		set(&l.MaxTreeLoops, a.MaxTreeLoops)
		set(&l.DailyCostCapUSD, a.DailyCostCapUSD)
		set(&l.DefaultBudgetUSD, a.DefaultBudgetUSD)
	}
	return l
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
