// Package record is the append-only, content-addressed log of the work loop: what an agent set out to do, did and learnt, one
// record a step. A record's id is the SHA-256 of its canonical JSON (RFC 8785), its order is the order of insertion, and nothing
// is ever changed or deleted. A hash chain over the rows, a signed head and an audit file that only grows make tampering show;
// Verify names the first record that is not what it was.
//
// The package does not know who may write what: that is decided before a record reaches it.
package record

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"playground/fault"
)

// An Act says what kind of step a record is.
type Act string

// The acts: four that coordinate, four that have effects.
const (
	ActIntend Act = "INTEND" // a goal; opens a thread
	ActDo     Act = "DO"     // an action
	ActKnow   Act = "KNOW"   // an observation, a fact, a verdict; closes what its body's "fulfills" names
	ActLearn  Act = "LEARN"  // a lasting insight; all configuration
	ActGet    Act = "GET"
	ActPut    Act = "PUT"
	ActCall   Act = "CALL"
	ActMap    Act = "MAP"
)

// Data types of a record; Scalar is the usual one.
const (
	Scalar       = "SCALAR"
	Formula      = "FORMULA"
	Distribution = "DISTRIBUTION"
	Reference    = "REFERENCE"
	Morphism     = "MORPHISM"
	Void         = "VOID"
)

// EngineDID is the author of what the engine itself writes.
const EngineDID = "did:sync:system:engine"

// The reserved threads.
const (
	ConfigThread            = "th_engine_config" // the configuration: LEARN records, folded by body.topic
	ActorRegistryThread     = "th_actor_registry"
	NamespaceRegistryThread = "th_namespace_registry"
	InstanceRegistryThread  = "th_instance_registry"
	FleetControlThread      = "th_fleet_control"
	ConsentThread           = "th_consent"
)

// Bounds of one record.
const (
	MaxBody    = 1 << 20   // bytes of the canonical body
	MaxClock   = 1<<53 - 1 // the largest integer that every JSON reader keeps exactly
	MaxParents = 256
)

// A Record is one entry as it is stored. ID covers Act, Actor, Body, Clock, DataType, Parents and Thread; JudgedBy, Sequence and
// CreatedAt are covered by the hash chain of the log. Treat a record as immutable: caches share its Body.
type Record struct {
	ID        string          `json:"id"`
	Parents   []string        `json:"parents"` // ids, ascending; never null
	Thread    string          `json:"thread"`
	Actor     string          `json:"actor"` // DID of the author
	Act       Act             `json:"act"`
	Body      json.RawMessage `json:"body"`  // a JSON object in canonical form
	Clock     int64           `json:"clock"` // strictly increasing per (actor, thread), from 0, with gaps
	DataType  string          `json:"data_type"`
	JudgedBy  *string         `json:"judged_by"`  // id of the record whose judgement this one reflects
	Sequence  int64           `json:"sequence"`   // place in the log, from 1, without gaps
	CreatedAt int64           `json:"created_at"` // Unix seconds
}

// MarshalJSON writes the record as it is served: its fields and "object":"record".
func (r Record) MarshalJSON() ([]byte, error) {
	type plain Record
	if r.Parents == nil {
		r.Parents = []string{}
	}
	if r.Body == nil {
		r.Body = json.RawMessage("{}")
	}
	return json.Marshal(struct {
		Object string `json:"object"`
		plain
	}{"record", plain(r)})
}

// Decode unmarshals the body into v.
func (r Record) Decode(v any) error {
	if err := json.Unmarshal(r.Body, v); err != nil {
		return fmt.Errorf("cannot decode body of record %q: %w", r.ID, err)
	}
	return nil
}

// Kind returns body.kind, or "".
func Kind(r Record) string { return headerOf(r.Body).Kind }

// A Draft is a record that is not written yet.
type Draft struct {
	Parents  []string // in any order; must be in the log, or be earlier drafts of the same Append
	Thread   string
	Actor    string
	Act      Act
	Body     any    // marshals to a JSON object
	Clock    *int64 // nil: the next one of (Actor, Thread)
	DataType string // "": Scalar
	JudgedBy *string
}

// NewThread returns a thread id: "th_" and the SHA-256 of the inputs, which the caller chooses so that two threads never share
// them. Without inputs it is random.
func NewThread(inputs ...string) string {
	hash := sha256.New()
	if len(inputs) == 0 {
		hash.Write([]byte(rand.Text()))
	}
	for _, input := range inputs { // the lengths keep ("ab","c") apart from ("a","bc")
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(input))))
		hash.Write([]byte(input))
	}
	return "th_" + hex.EncodeToString(hash.Sum(nil))
}

// Canonical returns the exact bytes that are hashed and signed: RFC 8785 JSON of the seven hashed fields. The body is
// canonicalised on the way.
func (r Record) Canonical() ([]byte, error) {
	body, err := Canonicalize(r.Body)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot read body")
	}
	r.Body = body
	return r.canonical(), nil
}
