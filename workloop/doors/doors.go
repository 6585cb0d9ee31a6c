// Package doors is the seam between a confined worker and the daemon: five routes on one inherited connection, with the
// client that the worker uses and the handler that the daemon serves. Everything that is not one of the five doors is
// answered with 404, every door wants the run's bearer, and what a run may write and read is checked here, before the
// kernel sees it.
//
// The order of the checks is part of the contract: the door (404), the bearer (401), the bounds of the body (411, 413), its
// form (400, 422) and what it may do (403). The worker is taken to be hostile: bodies are strict JSON without duplicate
// keys, and what the kernel gets is what was checked, not the bytes that came.
package doors

import (
	"encoding/json"
	"net/http"

	"playground/workloop/loop"
)

// The doors. Each takes POST and nothing else.
const (
	DoorVerdict  = "/v1/work/tool-verdict"
	DoorCall     = "/v1/work/tool-call"
	DoorRecords  = "/v1/records"
	DoorQuery    = "/v1/records/query"
	DoorMessages = "/v1/broker/messages"
)

// Bounds of bodies, in bytes, and of one query.
const (
	maxVerdict   = 1 << 20
	maxCall      = 4 << 10
	maxRecord    = 1 << 20
	maxQuery     = 64 << 10
	maxMessages  = 8 << 20
	maxAnswer    = 8 << 20
	maxValues    = 200_000 // in one body: more than the longest conversation has, whatever its calls' arguments are
	queryRecords = 200
)

// bodyLimit returns how large a request of a door may be; 0 if there is no such door.
func bodyLimit(door string) int64 {
	switch door {
	case DoorVerdict:
		return maxVerdict
	case DoorCall:
		return maxCall
	case DoorRecords:
		return maxRecord
	case DoorQuery:
		return maxQuery
	case DoorMessages:
		return maxMessages
	}
	return 0
}

// Bounds are what one run's credential may do.
type Bounds struct {
	Thread string   // the run's own: the only one it writes
	Kinds  []string // that it may write
	Reads  []string // threads it may read beside its own
}

// A Handoff is the one JSON line that a worker gets on its standard input, once it is verified.
type Handoff struct {
	Credential string          `json:"credential"`
	Thread     string          `json:"thread"`
	Spec       loop.Spec       `json:"spec"`
	Escape     json.RawMessage `json:"escape,omitempty"` // probes of the escape suite to run in place of the loop
}

// A callRequest is the body at DoorCall.
type callRequest struct {
	Call string `json:"call"` // record id of an allowed tool_call
}

// An appendRequest is the body at DoorRecords. The fields of a record that the kernel alone sets are known here so that a
// worker that tries to set them is told what it may not do.
type appendRequest struct {
	Kind     string          `json:"kind,omitempty"` // "": body.kind
	Thread   string          `json:"thread,omitempty"`
	Act      string          `json:"act,omitempty"`
	Body     json.RawMessage `json:"body"`
	Actor    json.RawMessage `json:"actor,omitempty"`
	Clock    json.RawMessage `json:"clock,omitempty"`
	Parents  json.RawMessage `json:"parents,omitempty"`
	DataType json.RawMessage `json:"data_type,omitempty"`
}

// An appendAnswer is the answer at DoorRecords.
type appendAnswer struct {
	Object string `json:"object"` // record
	ID     string `json:"id"`
}

// refuse returns a Refusal.
func refuse(status int, code, message string) *loop.Refusal {
	return &loop.Refusal{Status: status, Code: code, Message: message}
}

// tooLarge is the refusal of a body over its door's bound.
func tooLarge() *loop.Refusal {
	return refuse(http.StatusRequestEntityTooLarge, loop.CodeTooLarge, "the body is too large")
}
