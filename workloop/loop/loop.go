// Package loop is the agent loop: it asks a model, runs the tools the model asks for, and goes on until the model has
// nothing more to ask or the run must end. The same code runs inside the daemon and in a confined worker; what differs is
// the Kernel behind it, which judges every call, keeps the log and relays the model.
//
// The loop trusts neither the model nor what tools return: whatever a reply holds becomes a result that the model can read,
// or an end of the run with a name. It may only say how it believes the run ended (Claim); the kernel writes the outcome.
package loop

import (
	"context"
	"encoding/json"
	"time"

	"playground/inference"
	"playground/policy"
	"playground/record"
)

// A Domain is where a tool runs.
type Domain string

// The domains, from the least trusted. A tool of the sandboxed domain is run by the loop itself, the others by the kernel.
const (
	Sandboxed Domain = "sandboxed"
	Mediated  Domain = "mediated"
	Trusted   Domain = "kernel-trust-domain"
)

// A Tool is a tool in the reach of a run.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON schema of the arguments, an object
	Domain      Domain          `json:"domain"`
}

// A Spec is what a run is started with. It travels to a worker as JSON.
type Spec struct {
	Thread string `json:"thread"`
	Actor  string `json:"actor"`
	Goal   string `json:"goal"`
	// Opening is said after the goal at a start and, at a resume, after the History: what the kernel wants the model to
	// know, such as the answer to the decision that the run waited for.
	Opening  string        `json:"opening,omitempty"`
	Model    string        `json:"model,omitempty"`  // "" is the kernel's
	System   string        `json:"system,omitempty"` // added to the loop's own system text
	Tools    []Tool        `json:"tools"`
	Narrowed []string      `json:"narrowed"` // granted tools that the transport withheld: the model is told
	Hooks    []policy.Hook `json:"hooks,omitempty"`
	// LiveHooks, if set, is asked before each turn in place of Hooks. It does not travel: a worker keeps the hooks it began with.
	LiveHooks func() []policy.Hook `json:"-"`
	MaxTurns  int                  `json:"max_turns,omitempty"`  // of the whole run, those before a resume included; 0 is none
	MaxTokens int                  `json:"max_tokens,omitempty"` // of one reply; 0 is DefaultMaxTokens
	BudgetUSD *float64             `json:"budget_usd,omitempty"` // the model is told; the kernel holds the run to it
	WallClock time.Duration        `json:"wall_clock,omitempty"` // from the call of Run; 0 is none
	Reads     []string             `json:"reads,omitempty"`      // threads that the run may read beside its own
	History   []inference.Message  `json:"history,omitempty"`    // the conversation before a resume
	FirstTurn int                  `json:"first_turn,omitempty"` // index of the next turn: how many the run has had
}

// A Proposal is a tool call before it is run.
type Proposal struct {
	CallID    string          `json:"call_id"` // the model's id of the call; unique within its turn at best
	TurnIndex int             `json:"turn_index"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`                // a JSON object
	Truncated bool            `json:"truncated,omitempty"` // the reply was cut: record the call and its result, judge nothing
}

// The decisions of a Verdict.
const (
	Allow = "allow"
	Deny  = "deny"
	Stop  = "stop"
)

// The layers of the guard, in the order they are asked.
const (
	LayerStop  = "stop"
	LayerGrant = "grant"
	LayerClamp = "clamp"
	LayerRule  = "rule"
	LayerAllow = "allow"
)

// A Verdict is the kernel's judgment of a Proposal.
type Verdict struct {
	Decision string   `json:"decision"`
	Layer    string   `json:"layer"`
	Rule     string   `json:"rule,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Change   string   `json:"change,omitempty"`   // what would change the judgment
	Call     string   `json:"call"`               // id of the tool_call record
	Verdict  string   `json:"verdict,omitempty"`  // id of the tool_verdict record
	Messages []string `json:"messages,omitempty"` // what a person said meanwhile
}

// The statuses of a tool result.
const (
	StatusOK        = "ok"
	StatusError     = "error"
	StatusDenied    = "denied"
	StatusStopped   = "stopped"
	StatusTruncated = "truncated"
)

// A Result is what a tool returned.
type Result struct {
	Status  string          `json:"status"`
	Code    string          `json:"code,omitempty"` // of a failure
	Content string          `json:"content"`
	Data    json.RawMessage `json:"data,omitempty"`
	Park    bool            `json:"park,omitempty"` // a person was asked: the run stops here until they answer
}

// An Entry is a record that the loop writes on the run's thread. The kernel sets its author, clock and body.kind.
type Entry struct {
	Kind string     `json:"kind"`
	Act  record.Act `json:"act"`
	Body any        `json:"body"` // marshals to a JSON object
}

// A Completion is a model's reply as the kernel relays it.
type Completion struct {
	inference.Response
	SpentUSD     *float64 `json:"spent_usd,omitempty"`
	RemainingUSD *float64 `json:"remaining_usd,omitempty"`
	Messages     []string `json:"messages,omitempty"` // what a person said meanwhile
}

// A Kernel judges, records and relays for one run. The engine is one, in process; the client of the doors is the other.
// An error that Is ErrStopped or is a BudgetError ends the run as such; any other ends it as failed, except that a Refusal
// of Call or Query that names a fault of the request is shown to the model as a failed result.
type Kernel interface {
	// Propose records a call and its verdict. Of a call that is denied, stopped or truncated it records the result too.
	Propose(ctx context.Context, p Proposal) (Verdict, error)
	// Call runs a mediated or trusted tool, by the record id of an allowed tool_call, and records its result.
	Call(ctx context.Context, call string) (Result, error)
	// Append records an entry on the run's thread and returns its id. A note is for an allowed call of its tool.
	Append(ctx context.Context, e Entry) (id string, err error)
	// Query reads records, for an allowed call of a tool that does. It must name its thread.
	Query(ctx context.Context, q record.Query) (record.Page, error)
	// Complete asks the model.
	Complete(ctx context.Context, r inference.Request) (Completion, error)
}

// The outcomes of a run.
const (
	Completed       = "completed"
	Failed          = "failed"
	Cancelled       = "cancelled"
	Blocked         = "blocked"
	MaxTurns        = "max_turns"
	BudgetExhausted = "budget_exhausted"
	GuardrailHalt   = "guardrail_halt"
	AwaitingActor   = "awaiting_actor"
)

// The kinds of budget that can run out.
const (
	BudgetUSD       = "usd"
	BudgetTokens    = "tokens"
	BudgetWallClock = "wall_clock"
)

// A Claim is how the loop believes a run ended. The kernel compares it with what it has seen.
type Claim struct {
	Outcome    string `json:"outcome"`
	Summary    string `json:"summary,omitempty"`     // the model's last words, or why the run ended
	BudgetKind string `json:"budget_kind,omitempty"` // of BudgetExhausted
	Tool       string `json:"tool,omitempty"`        // of GuardrailHalt and Blocked
	ArgsHash   string `json:"args_hash,omitempty"`   // of GuardrailHalt
	Count      int    `json:"count,omitempty"`       // of GuardrailHalt
	Error      string `json:"error,omitempty"`       // of Failed
	Turns      int    `json:"turns"`                 // turns that this start made
}
