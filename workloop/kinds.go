package workloop

import (
	"encoding/json"

	"playground/workloop/loop"
	"playground/workloop/tier"
)

// The kinds that the kernel alone writes, beside loop.KindToolCall.
const (
	KindLoop        = "core.work.loop.v1"
	KindToolVerdict = "core.work.tool_verdict.v1"
	KindOutcome     = "core.work.loop_outcome.v1"
	KindCancel      = "core.work.loop_cancel.v1"
	KindRequest     = "core.work.decision_request.v1"
	KindDecision    = "core.work.decision.v1"
	KindMessage     = loop.KindMessage
	KindUsage       = "core.actor.usage.v1"
	KindRetired     = "core.actor.retired.v1"
)

// workerKinds are the kinds that a run may author.
func workerKinds() []string {
	return []string{loop.KindTurn, loop.KindToolResult, loop.KindNote, loop.KindObservation, loop.KindGuardrail, loop.KindCoercion}
}

// An anchor is the body of the record that opens a run: all that a restart needs to know of it.
type anchor struct {
	Kind          string         `json:"kind"`
	Goal          string         `json:"goal"`
	Principal     string         `json:"principal"`
	Actor         string         `json:"actor"`
	Tier          tier.Name      `json:"tier"`
	Transport     tier.Transport `json:"transport"`
	Model         string         `json:"model"`
	Tools         []string       `json:"tools"`
	Granted       []string       `json:"granted_tools"` // Tools, and those that the request forbids
	Narrowed      []string       `json:"narrowed"`
	Forbidden     []string       `json:"forbidden_tools"`
	MaxTurns      *int           `json:"max_turns"`
	WallClockSecs *int64         `json:"wall_clock_secs"`
	TokenBudget   *int64         `json:"token_budget"`
	TaskBudget    *float64       `json:"task_budget"`
	BudgetUSD     *float64       `json:"budget_usd"`
	Reads         []string       `json:"reads"`
	Workspace     string         `json:"workspace,omitempty"`
	SourceThread  *string        `json:"source_thread"`
	Definition    *string        `json:"definition"`
	Prompt        *string        `json:"prompt"`
}

// A verdictBody is the body of a tool_verdict record.
type verdictBody struct {
	Kind     string  `json:"kind"`
	Tool     string  `json:"tool"`
	Fulfills string  `json:"fulfills"`
	Decision string  `json:"decision"`
	Layer    string  `json:"layer"`
	Rule     *string `json:"rule"`
	Version  *string `json:"rule_version"` // id of the rule's record
	Reason   string  `json:"reason"`
	Change   string  `json:"change"`
	// Skipped are rules that failed on the call and decided nothing.
	Skipped []string `json:"skipped_rules,omitempty"`
}

// A callBody is the body of a tool_call record.
type callBody struct {
	Kind      string          `json:"kind"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
	ArgsHash  string          `json:"args_hash"`
	TurnIndex int             `json:"turn_index"`
	CallID    string          `json:"call_id"`
}

// A resultBody is the body of a tool_result record that the kernel writes.
type resultBody struct {
	Kind string `json:"kind"`
	loop.ToolResultBody
}

// An outcomeBody is the body of a loop_outcome record. Only a terminal one fulfills the anchor.
type outcomeBody struct {
	Kind         string         `json:"kind"`
	Outcome      string         `json:"outcome"`
	Success      bool           `json:"success"`
	State        string         `json:"state"`
	Transport    tier.Transport `json:"transport"`
	OK           int            `json:"tool_calls_ok"`
	Failed       int            `json:"tool_calls_failed"`
	Summary      string         `json:"summary"`
	Reason       string         `json:"reason,omitempty"` // in the kernel's words, where it overrules or adds to the loop's
	Hint         string         `json:"hint,omitempty"`   // what a person can do about it
	Turns        int            `json:"turns"`
	SpentUSD     float64        `json:"spent_usd"`
	InputTokens  int64          `json:"input_tokens"`
	OutputTokens int64          `json:"output_tokens"`
	ElapsedMS    int64          `json:"elapsed_ms"`
	Exit         *Exit          `json:"exit"` // of the worker; null in process
	Fulfills     string         `json:"fulfills,omitempty"`
	Request      string         `json:"decision_request,omitempty"`
	BudgetKind   string         `json:"budget_kind,omitempty"`
	Tool         string         `json:"tool,omitempty"`
	ArgsHash     string         `json:"args_hash,omitempty"`
	Count        int            `json:"count,omitempty"`
	Claimed      string         `json:"claimed,omitempty"` // what the loop said, where the kernel found otherwise
	StoppedBy    string         `json:"stopped_by,omitempty"`
}

// A requestBody is the body of a decision_request record.
type requestBody struct {
	Kind      string   `json:"kind"`
	Requester string   `json:"requester"`
	Decider   string   `json:"decider_did"`
	Call      string   `json:"call"` // id of the tool_call that asked
	Awaits    string   `json:"awaits"`
	Question  string   `json:"question"`
	Options   []string `json:"options"`
	Context   string   `json:"context,omitempty"`
	Reason    string   `json:"reason"`
	Claims    []string `json:"claims,omitempty"`
}

// A decisionBody is the body of a decision record.
type decisionBody struct {
	Kind     string          `json:"kind"`
	Fulfills string          `json:"fulfills"`
	Decision string          `json:"decision"`
	Reason   string          `json:"reason,omitempty"`
	Value    json.RawMessage `json:"provided_value,omitempty"`
}

// A retiredBody is the body of the record that ends a principal: whoever bears its name later is somebody else.
type retiredBody struct {
	Kind      string `json:"kind"`
	Principal string `json:"actor"`
}

// A messageBody is the body of a message record.
type messageBody struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// A cancelBody is the body of a loop_cancel record.
type cancelBody struct {
	Kind    string `json:"kind"`
	Cancels string `json:"cancels"`
	Reason  string `json:"reason"`
}
