// Package workloop is the engine of agent work loops: it decides whether a run may start, where it runs and with what reach,
// judges every tool call, keeps the tally, and writes the one outcome of each run. A run is a thread of records; what the
// engine holds in memory is a fold of them, so that a restart loses nothing but what was in flight, and says so.
//
// The loop itself (package workloop/loop) is the same code on both transports. In process it is given a *run as its Kernel;
// a worker reaches the same *run through the five doors of package workloop/doors. A worker is confined and verified before
// it is handed anything, holds no rules and no keys, and its word is never taken for what the kernel can count itself.
package workloop

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"time"

	"playground/inference"
	"playground/policy"
	"playground/record"
	"playground/workloop/tool"
)

// Options are an Engine's parts. Log and Rules are required.
type Options struct {
	Log    *record.Log
	Rules  *policy.Evaluator
	Broker *inference.Broker // nil: a start is refused with WORK_NO_PROVIDER
	// Starter confines and starts workers; nil: a sandboxed start is refused with WORK_ISOLATION_FAILED.
	Starter   Starter
	Sandbox   tool.Sandbox     // a tenant's own computer; nil: exec, read and write are not offered
	Operator  string           // the operator's DID; the only principal of tier operator
	DataDir   string           // root of the data-plane file tools; "" = the instance has none
	Workspace string           // root of the host tools where a start names none
	HostTools bool             // bash, read, write and edit for the operator's runs in process
	Capacity  int              // concurrent sandboxed runs; 0 = min(16, RAM/512 MiB), at least 1
	MaxTokens int              // of one answer of the model; 0 = loop.DefaultMaxTokens
	StopGrace time.Duration    // from stop to kill; 0 = 30 s
	Now       func() time.Time // nil = time.Now
	Notify    func(Notice)     // the daemon's log; nil = nobody is told
}

// A Starter starts confined workers. It returns only after every layer was verified from outside; a layer that does not
// hold is an error whose text names it, and leaves no process.
type Starter interface {
	Start(ctx context.Context, r WorkerRequest) (Worker, error)
}

// A WorkerRequest says what a worker is for.
type WorkerRequest struct {
	Run       string        // the run's thread
	WallClock time.Duration // ceiling of the run, for the processor time limit; 0 = none
	CPU       time.Duration // processor time limit; 0 = as the wall clock has it
	Memory    int64         // bytes that it may write to; 0 = as any worker
}

// A Worker is a confined process that waits for its handoff. Whoever holds it calls Kill, then Wait, once.
type Worker struct {
	PID    int
	Layers []string        // names of the verified layers
	Report json.RawMessage // what the verification saw
	Doors  net.Conn        // the daemon's end of the worker's one socket
	Stdin  io.WriteCloser
	Stdout io.ReadCloser
	Wait   func(ctx context.Context) (Exit, error) // returns when the process is reaped
	Kill   func()                                  // ends the process now; idempotent, safe after the end
}

// An Exit is how a worker ended.
type Exit struct {
	Code    int             `json:"code"`
	Signal  string          `json:"signal,omitempty"`
	Cleanup json.RawMessage `json:"cleanup,omitempty"` // the reaper's receipt
}

// Clean reports whether the worker ended by itself and without a complaint.
func (e Exit) Clean() bool { return e.Code == 0 && e.Signal == "" }

// The events of the daemon's log.
const (
	NoticeSandboxed = "running sandboxed"
	NoticeInProcess = "running in process"
	NoticeEnded     = "run ended"
	NoticeIsolation = "isolation failed"
	NoticeDenied    = "tool call denied"
	NoticeRule      = "rule skipped"
	NoticeError     = "run error"
)

// A Notice is one line for the daemon's log. It holds no goal, no argument and no output.
type Notice struct {
	Event     string
	Thread    string
	Principal string
	Actor     string
	PID       int
	Layers    []string
	Tool      string
	Rule      string
	Outcome   string
	Err       error
}

// A StartRequest asks for a run. Zero values take the tier's defaults; what is over a tier's ceiling is clamped to it.
type StartRequest struct {
	Principal     string   `json:"principal,omitempty"` // DID the run is for; "" is the operator
	Actor         string   `json:"actor,omitempty"`     // DID the run acts as; "" is the principal
	Goal          string   `json:"goal"`
	MaxTurns      *int     `json:"max_turns,omitempty"`
	BudgetUSD     *float64 `json:"budget_usd,omitempty"`
	TokenBudget   *int64   `json:"token_budget,omitempty"`
	WallClockSecs *int64   `json:"wall_clock_secs,omitempty"`
	Forbidden     []string `json:"forbidden_tools,omitempty"` // the run's own clamp
	Tools         []string `json:"tools,omitempty"`           // nil = the default grant; else exactly these
	Workspace     string   `json:"workspace,omitempty"`       // absolute folder of the host tools
	Reads         []string `json:"reads,omitempty"`           // threads it may read beside its own
	Model         string   `json:"model,omitempty"`           // "" is the broker's
	SourceThread  string   `json:"source_thread,omitempty"`
	Caller        string   `json:"-"` // DID of who asks; only the operator gives a member's run threads of others to read
	Escape        *Escape  `json:"-"` // in place of a loop; the run is then for EscapePrincipal, whatever Principal says
}

// An EffectiveConfig is what a run is held to. nil is no ceiling.
type EffectiveConfig struct {
	MaxTurns      *int     `json:"max_turns"`
	TokenBudget   *int64   `json:"token_budget"`
	WallClockSecs *int64   `json:"wall_clock_secs"`
	Forbidden     []string `json:"forbidden_tools"`
}

// Started is the answer to a start.
type Started struct {
	Object    string          `json:"object"` // work_loop
	Status    string          `json:"status"` // started
	Thread    string          `json:"thread"`
	Tier      string          `json:"tier"`
	Config    EffectiveConfig `json:"effective_config"`
	Watch     string          `json:"watch"`
	Transport string          `json:"transport"`
	Narrowed  []string        `json:"narrowed"`
	BudgetUSD *float64        `json:"budget_usd"`
}

// Grants are the tools of a principal: offered without being asked for, and only when named in a start.
type Grants struct {
	Default     []string `json:"default"`
	Requestable []string `json:"requestable"`
}

// A Preview is what a start would get. It takes no slot. nil is no ceiling.
type Preview struct {
	Object        string   `json:"object"` // work_loop_preview
	Principal     string   `json:"principal"`
	Tier          string   `json:"tier"`
	MaxTurns      *int     `json:"max_turns"`
	WallClockSecs *int64   `json:"wall_clock_secs"`
	TokenBudget   *int64   `json:"token_budget"`
	DailyCostCap  *float64 `json:"daily_cost_cap_usd"`
	DailyLoopCap  *int64   `json:"daily_loop_cap"`
	LoopCount     int64    `json:"loop_count"` // today
	CostUSD       float64  `json:"cost_usd"`   // today
	EstimatedCost float64  `json:"estimated_cost_usd"`
	Grants        Grants   `json:"tool_grant"`
	WouldBeDenied bool     `json:"would_be_denied"`
	DenialCode    string   `json:"denial_code,omitempty"`
	DenialReason  string   `json:"denial_reason"`
	DenialHint    string   `json:"denial_hint,omitempty"`
	Transport     string   `json:"transport"`
	Narrowed      []string `json:"narrowed"`
	BudgetUSD     *float64 `json:"budget_usd"`
}

// The states of a run.
const (
	Running      = "running"
	WaitingOnYou = "waiting_on_you"
	Done         = "done"
	Stopped      = "stopped"
	StoppedShort = "stopped_short"
)

// An Ask is the question of a run that waits.
type Ask struct {
	RequestID string   `json:"request_id"`
	Question  string   `json:"question"`
	Options   []string `json:"options"`
	Context   string   `json:"context,omitempty"`
	Reason    string   `json:"reason,omitempty"`
}

// A Row is a run as it is served.
type Row struct {
	Object          string   `json:"object"` // run
	Thread          string   `json:"thread"`
	Actor           string   `json:"actor"`
	ActorName       string   `json:"actor_name"`
	Principal       string   `json:"principal"`
	Tier            string   `json:"tier"`
	Model           string   `json:"model"`
	Goal            string   `json:"goal"`
	SourceThread    *string  `json:"source_thread"`
	Domain          *string  `json:"domain"`
	Definition      *string  `json:"definition"`
	Prompt          *string  `json:"prompt"`
	Frame           *string  `json:"frame"`
	State           string   `json:"state"`
	Outcome         *string  `json:"outcome"` // of an ended or waiting run
	Success         *bool    `json:"success"`
	Turns           int      `json:"turns"`
	MaxTurns        *int     `json:"max_turns"` // nil is no ceiling
	SpentUSD        float64  `json:"spent_usd"`
	CeilingUSD      *float64 `json:"ceiling_usd"`
	BudgetUSD       *float64 `json:"budget_usd"`
	StartedAt       int64    `json:"started_at"`
	EndedAt         *int64   `json:"ended_at"`
	Summary         *string  `json:"summary"`
	Hint            string   `json:"hint,omitempty"` // what a person can do about the reason
	Ask             *Ask     `json:"ask"`
	Tools           []string `json:"tools"`
	Narrowed        []string `json:"narrowed"`
	Transport       string   `json:"transport"`
	ToolCallsOK     int      `json:"tool_calls_ok"`
	ToolCallsFailed int      `json:"tool_calls_failed"`
	Verb            *string  `json:"verb"`
	Needs           []string `json:"needs"`
	Reason          *string  `json:"reason"`
	Evidence        []string `json:"evidence"`
	Candidates      []string `json:"candidates"`
	ReportedBy      *string  `json:"reported_by"`
}

// A Filter selects runs. Zero values do not filter.
type Filter struct {
	State string
	Actor string    // matches the run's actor or principal
	Since time.Time // started at or after
	Limit int       // 0 = 50, at most 500
	Scan  int       // runs looked at, newest first; 0 = all
}

// A RunPage is a list of runs, newest first.
type RunPage struct {
	Rows      []Row
	Truncated bool // the scan bound or the limit was reached before the oldest run
}

// The types of an Event.
const (
	EventStop     = "stop"
	EventMessage  = "message"
	EventDecision = "decision"
)

// An Event is what a person says to a run.
type Event struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	RequestID string          `json:"request_id,omitempty"` // of a decision; "" is the one that is open
	Decision  string          `json:"decision,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Value     json.RawMessage `json:"provided_value,omitempty"`
	Policy    bool            `json:"becomes_policy,omitempty"`
	Actor     string          `json:"-"` // DID of who speaks; "" is the operator
}

// A Decision is an answer to a run's question.
type Decision struct {
	Object    string          `json:"object"`     // decision
	ID        string          `json:"id"`         // of the decision's record
	RequestID string          `json:"request_id"` // of the question's record
	Decision  string          `json:"decision"`
	Reason    string          `json:"reason,omitempty"`
	Value     json.RawMessage `json:"provided_value,omitempty"`
	Policy    bool            `json:"policy"`
	Thread    string          `json:"opened_thread"` // where the run goes on
	Fulfills  string          `json:"fulfills"`
	Resumed   bool            `json:"resumed"`
}

// An OpenDecision is a question nobody has answered.
type OpenDecision struct {
	Object    string `json:"object"` // decision_request
	Thread    string `json:"thread"`
	Actor     string `json:"actor"`
	Principal string `json:"principal"`
	AskedAt   int64  `json:"asked_at"`
	Ask
}

// Health are the figures of the work loop.
type Health struct {
	Transport       string `json:"transport"`
	MemberTransport string `json:"member_transport"`
	Capacity        int    `json:"admission_capacity"`
	Available       int    `json:"admission_available"`
	HooksLoaded     int    `json:"hooks_loaded"`
}

// A ToolInfo describes a tool of this instance.
type ToolInfo struct {
	Object      string          `json:"object"` // tool
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Domain      string          `json:"domain"` // sandboxed, mediated or kernel-trust-domain
	Runnable    bool            `json:"runnable"`
	Reason      string          `json:"reason,omitempty"` // why it cannot run here
}

// A Usage is what a principal used on one day (UTC).
type Usage struct {
	Object       string  `json:"object"` // usage
	Principal    string  `json:"actor"`
	Day          string  `json:"day"` // 2006-01-02
	LoopCount    int64   `json:"loop_count"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`
}
