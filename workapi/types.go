package workapi

import (
	"encoding/json"

	"playground/policy"
	"playground/record"
	"playground/workloop"
)

// ActorHeader lets the operator act for a member of the instance: the DID of a tenant. Clients of the protocol send the other.
const (
	ActorHeader    = "X-Playground-Actor"
	ProtocolHeader = "X-Syncropel-Actor"
)

// A List is a page of things.
type List[T any] struct {
	Object    string `json:"object"` // list
	Data      []T    `json:"data"`
	HasMore   bool   `json:"has_more"`
	NextAfter int64  `json:"next_after,omitempty"` // for the next page's "after"
}

// A NewRecord is what a client writes. Without a clock the next one of (actor, thread) is taken; without an actor the caller
// is the author.
type NewRecord struct {
	Act      record.Act      `json:"act"`
	Actor    string          `json:"actor,omitempty"`
	Thread   string          `json:"thread"`
	Body     json.RawMessage `json:"body"` // a JSON object
	Clock    *int64          `json:"clock,omitempty"`
	DataType string          `json:"data_type,omitempty"` // "" is SCALAR
	Parents  []string        `json:"parents,omitempty"`
	JudgedBy *string         `json:"judged_by,omitempty"`
}

// A RecordFilter selects records; at least Thread, Actor, Since or a bound of the clock must be set.
type RecordFilter struct {
	Thread   string
	Actor    string
	Kind     string
	Since    int64 // Unix seconds
	ClockMin *int64
	ClockMax *int64
	After    int64 // sequence
	Limit    int   // 0 = 100, at most 1000
}

// A ThreadInfo is a thread as it is served.
type ThreadInfo struct {
	Object string `json:"object"` // thread
	record.Thread
}

// A ThreadState says where a thread stands.
type ThreadState struct {
	Object       string       `json:"object"` // thread_state
	Thread       string       `json:"thread"`
	State        record.State `json:"state"`
	Opened       string       `json:"opened"`
	Records      int64        `json:"records"`
	LastClock    int64        `json:"last_clock"`
	LastSequence int64        `json:"last_sequence"`
}

// A RunList is a list of runs, newest first.
type RunList struct {
	Object    string         `json:"object"` // list; run_list for one actor's
	Actor     string         `json:"actor,omitempty"`
	Count     int            `json:"count"`
	Truncated bool           `json:"truncated"`
	Data      []workloop.Row `json:"data"`
}

// A RunFilter selects runs. Zero values do not filter.
type RunFilter struct {
	State string
	Actor string
	Since string // RFC 3339
	Limit int    // 0 = 50, at most 500
}

// An Ack says that a run was told something.
type Ack struct {
	Object   string `json:"object"` // run_event
	Thread   string `json:"thread"`
	Type     string `json:"type"`
	Accepted bool   `json:"accepted"`
}

// An Answer decides what a run asked.
type Answer struct {
	Decision string          `json:"decision"`
	Reason   string          `json:"reason,omitempty"`
	Value    json.RawMessage `json:"provided_value,omitempty"`
	Policy   bool            `json:"becomes_policy,omitempty"`
}

// A Provenance says what a run was made from.
type Provenance struct {
	Object     string   `json:"object"` // run_provenance
	Thread     string   `json:"thread"`
	Definition *string  `json:"definition"`
	Prompt     *string  `json:"prompt"`
	Frame      *string  `json:"frame"`
	Model      string   `json:"model"`
	Transport  string   `json:"transport"`
	Tools      []string `json:"tools"`
	Narrowed   []string `json:"narrowed"`
}

// A Rule is a permission rule as it is served.
type Rule struct {
	Object     string        `json:"object"` // permission_rule
	Name       string        `json:"name"`
	Namespace  string        `json:"namespace"`
	Expression string        `json:"expression"`
	Action     policy.Action `json:"action"`
	Priority   int64         `json:"priority"`
	Enabled    bool          `json:"enabled"`
	Record     string        `json:"record"` // id of the record that holds it
	Sequence   int64         `json:"sequence"`
}

// A RuleList are the rules in the order they are asked; what is not enabled comes last. Tool calls are always judged by them;
// PermissionsEnabled is about the requests of HTTP, which this instance does not judge by rules.
type RuleList struct {
	Object             string `json:"object"` // list
	Data               []Rule `json:"data"`
	PermissionsEnabled bool   `json:"permissions_enabled"`
	ToolGuard          string `json:"tool_guard"` // on
}

// An EngineHealth are the figures of the instance.
type EngineHealth struct {
	Object          string          `json:"object"` // engine_health
	Ingested        int64           `json:"ingested_total"`
	Reconciled      int64           `json:"reconciled_total"`
	QueueDepth      int64           `json:"reconcile_queue_depth"`
	Pending         int             `json:"aitl_pending"` // questions that wait for a person
	Intelligence    bool            `json:"intelligence_enabled"`
	UptimeSecs      int64           `json:"uptime_secs"`
	WorkLoop        workloop.Health `json:"work_loop"`
	Version         string          `json:"version,omitempty"` // with details
	Provider        string          `json:"provider,omitempty"`
	Model           string          `json:"model,omitempty"`
	ExpressionCache *policy.Stats   `json:"expression_cache,omitempty"`
}

// A CacheStats are the figures of the cache of expressions.
type CacheStats struct {
	Object string `json:"object"` // expression_cache_stats
	policy.Stats
}

// A Verification is what a check of the whole log found.
type Verification struct {
	Object string `json:"object"` // verification
	OK     bool   `json:"ok"`
	record.Report
}

// A Decider is one of those who may refuse a request.
type Decider struct {
	Name  string `json:"decider"`
	State string `json:"state"` // live or abstains
	Why   string `json:"why,omitempty"`
}

// A Health says that the instance answers.
type Health struct {
	Object   string    `json:"object"` // health
	Status   string    `json:"status"` // ok
	Version  string    `json:"version,omitempty"`
	Deciders []Decider `json:"deciders,omitempty"`
}

// A StreamEvent is one event of a stream.
type StreamEvent struct {
	ID     int64 // sequence of the record
	Type   string
	Record record.Record
}
