package doors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"playground/inference"
	"playground/record"
	"playground/workloop/loop"
)

// decode reads a body into v, a pointer to a struct. Keys that come twice are refused, at any depth, as are keys of v that it
// does not have in exactly this spelling: encoding/json alone would take "Kind" for "kind", and the last of two.
func decode(body []byte, v any) error {
	if bulk(body) > maxValues {
		return refuse(http.StatusRequestEntityTooLarge, loop.CodeTooLarge, fmt.Sprintf("the body holds more than %d values", maxValues))
	}
	canonical, err := record.Canonicalize(body)
	if err != nil {
		return refuse(http.StatusBadRequest, loop.CodeInvalidBody, "the body is not strict JSON: "+err.Error())
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &keys); err != nil || keys == nil {
		return refuse(http.StatusBadRequest, loop.CodeInvalidBody, "the body is not a JSON object")
	}
	known := fieldsOf(reflect.TypeOf(v).Elem())
	for key := range keys {
		if !slices.Contains(known, key) {
			return refuse(http.StatusUnprocessableEntity, loop.CodeInvalidBody, fmt.Sprintf("there is no field %.80q", key))
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(body)) // as it came: in a sort, the order of the keys counts
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return refuse(http.StatusUnprocessableEntity, loop.CodeInvalidBody, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// bulk counts the values in JSON, about. A message of no content takes two bytes in JSON and a hundred times as many when it is read.
func bulk(body []byte) (values int) {
	quoted := false
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case !quoted && (b == '{' || b == '[' || b == ','):
			values++
		}
	}
	return values
}

// fieldsOf returns the JSON names of a struct's fields, those of embedded structs included.
func fieldsOf(t reflect.Type) []string {
	var names []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			names = append(names, fieldsOf(field.Type)...)
		case name != "-" && name != "":
			names = append(names, name)
		}
	}
	return names
}

// isObject reports whether canonical JSON is an object.
func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// invalid is the refusal of what a body says.
func invalid(format string, args ...any) error {
	return refuse(http.StatusUnprocessableEntity, loop.CodeInvalidBody, fmt.Sprintf(format, args...))
}

// verdict is DoorVerdict.
func verdict(ctx context.Context, kernel loop.Kernel, body []byte) (any, error) {
	var p loop.Proposal
	if err := decode(body, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Tool == "" || len(p.Tool) > 128:
		return nil, invalid("tool is missing or too long")
	case len(p.CallID) > 128:
		return nil, invalid("call_id is too long")
	case p.TurnIndex < 0:
		return nil, invalid("turn_index is negative")
	case !isObject(p.Args):
		return nil, invalid("args is not an object")
	}
	return kernel.Propose(ctx, p)
}

// call is DoorCall.
func call(ctx context.Context, kernel loop.Kernel, body []byte) (any, error) {
	var in callRequest
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if err := record.ValidID(in.Call); err != nil {
		return nil, invalid("call is not the id of a record")
	}
	return kernel.Call(ctx, in.Call)
}

// appendRecord is DoorRecords: on the run's own thread, of the kinds that a run may author, under the author, clock and
// parents that the kernel chooses.
func appendRecord(ctx context.Context, kernel loop.Kernel, bounds Bounds, body []byte) (any, error) {
	var in appendRequest
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if in.Thread != "" && in.Thread != bounds.Thread {
		return nil, refuse(http.StatusForbidden, loop.CodeScopeForbidden, "a run writes on its own thread only")
	}
	if in.Actor != nil {
		return nil, refuse(http.StatusForbidden, loop.CodeScopeForbidden, "the kernel names the author of a run's records")
	}
	kind, rest, err := kindOf(in)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(bounds.Kinds, kind) {
		return nil, refuse(http.StatusForbidden, loop.CodeKindNotAdmitted, fmt.Sprintf("a run may not write the kind %.80q", kind))
	}
	if in.Clock != nil || in.Parents != nil || in.DataType != nil {
		return nil, invalid("the kernel sets clock, parents and data_type of a run's records")
	}
	if act := loop.ActOf(kind); in.Act != "" && in.Act != string(act) {
		return nil, invalid("a record of kind %s is a %s", kind, act)
	}
	entry, err := entryOf(kind, rest, bounds)
	if err != nil {
		return nil, err
	}
	id, err := kernel.Append(ctx, entry)
	return appendAnswer{Object: "record", ID: id}, err
}

// kindOf returns the kind that a request names, once or twice alike, and the body without it.
func kindOf(in appendRequest) (kind string, rest json.RawMessage, err error) {
	var fields map[string]json.RawMessage
	if !isObject(in.Body) || json.Unmarshal(in.Body, &fields) != nil {
		return "", nil, invalid("body is not an object")
	}
	kind = in.Kind
	if raw, ok := fields["kind"]; ok {
		var inner string
		if json.Unmarshal(raw, &inner) != nil || (kind != "" && kind != inner) {
			return "", nil, refuse(http.StatusForbidden, loop.CodeKindNotAdmitted, "kind and body.kind do not name one kind")
		}
		kind = inner
		delete(fields, "kind")
	}
	rest, err = json.Marshal(fields)
	return kind, rest, err
}

// entryOf reads the body of a kind into its type. There is no other way to a kernel: a kind without a type cannot be
// written, and a body holds nothing but the fields of its type.
func entryOf(kind string, body json.RawMessage, bounds Bounds) (loop.Entry, error) {
	entry := loop.Entry{Kind: kind, Act: loop.ActOf(kind)}
	switch kind {
	case loop.KindTurn:
		return filled(entry, body, func(b loop.TurnBody) error {
			if b.TurnIndex < 0 || b.InputTokens < 0 || b.OutputTokens < 0 || b.CostUSD < 0 || b.ToolCalls < 0 {
				return errors.New("a figure of the turn is negative")
			}
			return nil
		})
	case loop.KindToolResult:
		return filled(entry, body, func(b loop.ToolResultBody) error {
			if b.Status != loop.StatusOK && b.Status != loop.StatusError {
				return errors.New("status is neither ok nor error; the kernel records the others")
			}
			return record.ValidID(b.Fulfills)
		})
	case loop.KindNote:
		return filled(entry, body, func(b loop.NoteBody) error { return wanted("text", b.Text) })
	case loop.KindObservation:
		return filled(entry, body, func(b loop.ObservationBody) error {
			if b.LoopThread != bounds.Thread {
				return errors.New("loop_thread is not the run's thread")
			}
			return errors.Join(wanted("rule", b.Rule), wanted("text", b.Text))
		})
	case loop.KindGuardrail:
		return filled(entry, body, func(b loop.GuardrailBody) error {
			if b.Verdict != loop.GuardrailVerdictBlock && b.Verdict != loop.GuardrailVerdictHalt {
				return errors.New("verdict is neither block nor halt")
			}
			return nil
		})
	case loop.KindCoercion:
		return filled(entry, body, func(b loop.CoercionBody) error { return wanted("reason", b.Reason) })
	}
	return entry, refuse(http.StatusForbidden, loop.CodeKindNotAdmitted, fmt.Sprintf("a run may not write the kind %.80q", kind))
}

// filled returns entry with the body as a T that passes check.
func filled[T any](entry loop.Entry, body json.RawMessage, check func(T) error) (loop.Entry, error) {
	var typed T
	if err := decode(body, &typed); err != nil {
		return entry, err
	}
	if err := check(typed); err != nil {
		return entry, invalid("%s: %s", entry.Kind, err.Error())
	}
	entry.Body = typed
	return entry, nil
}

// wanted returns an error if a text is empty.
func wanted(name, text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New(name + " is empty")
	}
	return nil
}

// query is DoorQuery: one thread at a time, by name, so that no filter can reach past it. What comes back is looked at once
// more, and bounded.
func query(ctx context.Context, kernel loop.Kernel, bounds Bounds, body []byte) (any, error) {
	var q record.Query
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	if q.Thread == "" || (q.Thread != bounds.Thread && !slices.Contains(bounds.Reads, q.Thread)) {
		return nil, refuse(http.StatusForbidden, loop.CodeReadsNotCovered, "a run reads its own thread and the threads it was given, each by its name")
	}
	if q.Explain = false; q.Limit < 0 || q.Offset < 0 {
		return nil, refuse(http.StatusBadRequest, loop.CodeInvalidQuery, "limit or offset is negative")
	}
	if q.Limit == 0 {
		q.Limit = record.DefaultLimit
	}
	q.Limit = min(q.Limit, queryRecords)
	page, err := kernel.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(page.Data, func(r record.Record) bool { return r.Thread != q.Thread }) {
		return nil, refuse(http.StatusForbidden, loop.CodeReadsNotCovered, "the query reaches past its thread")
	}
	page.Plan = nil
	return fitted(page), nil
}

// fitted returns as much of a page as an answer holds.
func fitted(page record.Page) record.Page {
	size := 0
	for i, r := range page.Data {
		if size += len(r.Body) + 1024 + 70*len(r.Parents); size > maxAnswer-(64<<10) {
			page.Data, page.Capped = page.Data[:i], true
			break
		}
	}
	return page
}

// messages is DoorMessages.
func messages(ctx context.Context, kernel loop.Kernel, body []byte) (any, error) {
	var r inference.Request
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	if len(r.Messages) == 0 || r.MaxTokens < 1 {
		return nil, invalid("messages are missing, or max_tokens is not positive")
	}
	return kernel.Complete(ctx, r)
}
