package loop

import (
	"encoding/json"

	"playground/record"
)

// The kinds that a loop writes. All others on a run's thread are the kernel's.
const (
	KindTurn        = "core.work.turn.v1"
	KindToolResult  = "core.work.tool_result.v1"
	KindNote        = "core.work.note.v1"
	KindObservation = "core.work.observation.v1"
	KindGuardrail   = "core.work.guardrail.v1"
	KindCoercion    = "core.work.coercion.v1"
)

// A TurnBody is the body of a turn record: one reply of the model.
type TurnBody struct {
	TurnIndex    int      `json:"turn_index"` // from 0
	Model        string   `json:"model"`
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	CostUSD      float64  `json:"cost_usd"`
	StopReason   string   `json:"stop_reason"`
	Text         string   `json:"text"`
	ToolCalls    int      `json:"tool_calls"`
	HookErrors   []string `json:"hook_errors,omitempty"` // hooks that failed since the turn before
}

// A ToolResultBody is the body of a tool_result record.
type ToolResultBody struct {
	Fulfills   string          `json:"fulfills"` // id of the tool_call record
	Tool       string          `json:"tool"`
	TurnIndex  int             `json:"turn_index"`
	Status     string          `json:"status"`
	Code       string          `json:"code,omitempty"`
	Content    string          `json:"content"` // as the model was shown it
	Data       json.RawMessage `json:"data,omitempty"`
	DurationMS int64           `json:"duration_ms"`
}

// A NoteBody is the body of a note record.
type NoteBody struct {
	Text      string `json:"text"`
	TurnIndex int    `json:"turn_index"`
}

// An ObservationBody is the body of an observation record.
type ObservationBody struct {
	Rule       string `json:"rule"`
	Text       string `json:"text"` // the exact words that the model is shown
	LoopThread string `json:"loop_thread"`
	Tool       string `json:"tool"`
	Call       string `json:"call,omitempty"` // id of the tool_call record
	TurnIndex  int    `json:"turn_index"`
	Source     string `json:"source"` // SourceBuiltin or SourceHook
}

// The sources of an observation.
const (
	SourceBuiltin = "builtin"
	SourceHook    = "hook"
)

// The verdicts of a guardrail.
const (
	GuardrailVerdictBlock = "block"
	GuardrailVerdictHalt  = "halt"
)

// A GuardrailBody is the body of a guardrail record.
type GuardrailBody struct {
	Verdict   string `json:"verdict"`
	Tool      string `json:"tool"`
	ArgsHash  string `json:"args_hash"`
	Count     int    `json:"count"`
	Threshold int    `json:"threshold"`
	TurnIndex int    `json:"turn_index"`
}

// The reasons of a coercion.
const (
	ReasonToolUnavailable    = "tool_unavailable"
	ReasonAmbiguousGoal      = "ambiguous_goal"
	ReasonPreconditionFailed = "precondition_failed"
	ReasonDecisionRequired   = "decision_required"
	ReasonInputInvalid       = "input_invalid"
	ReasonInternalError      = "internal_error"
)

// A CoercionBody is the body of a coercion record: why a run that ends as blocked could not go on.
type CoercionBody struct {
	Reason             string   `json:"reason"`
	Narrative          string   `json:"narrative"`
	MissingTools       []string `json:"missing_tools,omitempty"`
	DecisionRequestRef string   `json:"decision_request_ref,omitempty"`
}

// ActOf returns the act of a kind that a loop writes, and KNOW for any other.
func ActOf(kind string) record.Act {
	if kind == KindTurn {
		return record.ActDo
	}
	return record.ActKnow
}
