// Package policy decides, by rules that an operator writes in CEL, whether a run may call a tool, and which hooks speak
// after a call. Rules and hooks are data of strangers to this package: parsing is strict, and an evaluation is bounded in
// cost, memory and time, so that no expression can stall the daemon. The language is that of https://cel.dev.
//
// A rule that fails while it runs, for instance because it reads a field that the call does not have, decides nothing; its
// name is reported. A rule that does not finish within its bounds is another matter: what it reads is written by the model
// it is there to hold, which could make it too expensive on purpose. Such a rule counts as true if it denies.
package policy

import "time"

// An Action is what a rule says of a call that its expression is true for.
type Action string

// The actions. There is no third: asking a person is a tool of the run, not an answer of a rule.
const (
	Allow Action = "allow"
	Deny  Action = "deny"
)

// A Context is the set of names that an expression may use.
type Context string

// The contexts.
const (
	Permission Context = "permission" // record, resource, system and the functions that permissionEnv declares
	Observer   Context = "hook"       // tool, args, status and content
)

// A Rule is one permission rule.
type Rule struct {
	Name       string
	Namespace  string // "default" where the record names none
	Expression string // CEL of the Permission context, of type bool, at most 8 KiB
	Action     Action
	Priority   int64 // higher ones are asked first
	Enabled    bool
	Record     string // id of the record that holds the rule: its version. ParseRule leaves it empty
}

// A Subject is what rules are asked about.
type Subject struct {
	Actor     string // DID that the call is made for: current_actor()
	Namespace string // current_namespace()
	Resource  string // "tool:bash"
	// Record has act, actor, thread, body (tool and args of a call), clock, data_type and parents. Its values are those of
	// encoding/json, with int64 allowed too. It must not change while Decide runs.
	Record     map[string]any
	Now        time.Time
	Trust      func(actor, domain string) float64 // 0 to 1; nil answers 0
	TrustCount int64                              // trust_count(): the judgements that the trust in the actor rests on
	Task       func(alias string) map[string]any  // nil, or a nil map, answers an empty map
	System     map[string]any                     // system.*; nil is an empty map
}

// A Decision is what the rules said. The zero Action means that nothing objected and nothing allowed.
type Decision struct {
	Action  Action
	Rule    string   // name of the rule that decided
	Version string   // its Record
	Skipped []string // names of rules that failed at run time, in the order they were asked
	Limited bool     // the rule that decided denies, and did not finish within its bounds
}

// A Hook adds a text to what the model sees after a tool call.
type Hook struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	When      string `json:"when"` // CEL of the Observer context, of type bool
	Text      string `json:"text"` // ${tool} and ${status} are filled in; there is no other
	MaxFires  int    `json:"max_fires_per_run"`
	Enabled   bool   `json:"enabled"`
}

// A HookCall is a finished tool call as a hook sees it.
type HookCall struct {
	Tool    string
	Args    map[string]any
	Status  string
	Content string // only the first 4096 runes are shown to a hook
}

// Stats are the figures of an evaluator's cache of compiled expressions.
type Stats struct {
	Hits             uint64  `json:"hits"`
	Misses           uint64  `json:"misses"`
	CompileErrors    uint64  `json:"compile_errors"`
	HitRatePct       float64 `json:"hit_rate_pct"`
	AvgCompileMicros float64 `json:"avg_compile_micros"`
	Size             int     `json:"size"`
	Capacity         int     `json:"capacity"`
}
