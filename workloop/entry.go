package workloop

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"playground/record"
	"playground/workloop/loop"
)

// Append implements loop.Kernel: it writes what the loop may author, under the run's actor, and checks it against what the kernel
// has seen. A result must answer an allowed call that has none; the figures of a turn are the kernel's own.
func (r *run) Append(ctx context.Context, e loop.Entry) (string, error) {
	if err := r.enter(); err != nil {
		return "", err
	}
	defer r.leave()
	if !slices.Contains(workerKinds(), e.Kind) {
		return "", refuse(loop.CodeKindNotAdmitted, http.StatusForbidden, "a run does not write records of kind %.128q", e.Kind)
	}
	if act := loop.ActOf(e.Kind); e.Act != "" && e.Act != act {
		return "", invalid("act of a record of kind %s must be %s", e.Kind, act)
	}
	body, size, err := object(e.Body)
	if err != nil {
		return "", err
	}
	body["kind"], _ = json.Marshal(e.Kind)
	if err := r.admitEntry(size); err != nil {
		return "", err
	}
	parents := []string{r.anchor}
	switch e.Kind {
	case loop.KindTurn:
		if err := r.stampTurn(body); err != nil {
			return "", err
		}
	case loop.KindToolResult:
		return r.appendResult(ctx, body)
	case loop.KindNote:
		return r.appendNote(ctx, body, parents)
	case loop.KindObservation:
		if strings.TrimSpace(textOf(body["rule"])) == "" {
			return "", invalid("an observation needs a rule")
		}
	}
	return r.author(ctx, e.Kind, body, parents)
}

// appendNote writes a note, of which there is one for each allowed call of its tool: a rule that denies the tool holds for a worker too
// that does not ask. The escape suite asks no model; its notes are what it found.
func (r *run) appendNote(ctx context.Context, body map[string]json.RawMessage, parents []string) (string, error) {
	r.mu.Lock()
	allowed := r.plan.escape != nil || r.tally.waiting(loop.ToolRecordNote) > r.notes
	if allowed {
		r.notes++
	}
	r.mu.Unlock()
	if !allowed {
		return "", uncalled(loop.ToolRecordNote)
	}
	id, err := r.author(ctx, loop.KindNote, body, parents)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes--
	}
	return id, err
}

// uncalled is the refusal of what a tool does, where no call of it is allowed and lacks its result.
func uncalled(tools ...string) error {
	return refuse(loop.CodeConflict, http.StatusConflict, "there is no allowed call of %s that lacks its result", strings.Join(tools, " or "))
}

// author writes a record of the run's actor.
func (r *run) author(ctx context.Context, kind string, body map[string]json.RawMessage, parents []string) (string, error) {
	records, err := r.e.o.Log.Append(context.WithoutCancel(ctx), record.Draft{
		Parents: parents, Thread: r.thread, Actor: r.plan.actor, Act: loop.ActOf(kind), Body: body,
	})
	if err != nil {
		return "", unwritten(err)
	}
	return records[0].ID, nil
}

// object returns the members of a body, and its size.
func object(body any) (members map[string]json.RawMessage, size int, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, 0, invalid("the body cannot be written as JSON")
	}
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, 0, invalid("the body is not a JSON object")
	}
	return members, len(raw), nil
}

func textOf(raw json.RawMessage) (text string) {
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// admitEntry counts a record that the run writes.
func (r *run) admitEntry(bytes int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries >= maxEntries && (r.plan.escape == nil || r.entries >= maxEscape) {
		return refuse(CodeFlood, http.StatusTooManyRequests, "%d records on one reply are too many", maxEntries)
	}
	if r.bytes+bytes > maxBytes {
		return refuse(CodeFlood, http.StatusTooManyRequests, "more than %d bytes on one reply are too many", maxBytes)
	}
	r.entries++
	r.bytes += bytes
	return nil
}

// stampTurn puts the kernel's figures of the last reply into a turn, of which there is one a reply.
func (r *run) stampTurn(body map[string]json.RawMessage) error {
	r.mu.Lock()
	owed := r.turnOwed
	r.turnOwed = nil
	r.mu.Unlock()
	if owed == nil {
		return refuse(loop.CodeConflict, http.StatusConflict, "a turn needs a reply of the model, and each has one")
	}
	for name, value := range map[string]any{
		"turn_index": owed.index, "model": owed.model, "input_tokens": owed.usage.InputTokens, "output_tokens": owed.usage.OutputTokens,
		"cost_usd": owed.usage.CostUSD, "stop_reason": owed.stop,
	} {
		raw, err := json.Marshal(value)
		if err != nil {
			return invalid("the turn cannot be written as JSON")
		}
		body[name] = raw
	}
	return nil
}

// appendResult writes the result of a call that the loop carried out itself, or did not carry out. Of a call that is the kernel's to
// carry out, a loop may only say that it failed, and of a note that it is written only when it is.
func (r *run) appendResult(ctx context.Context, body map[string]json.RawMessage) (string, error) {
	id, status := textOf(body["fulfills"]), textOf(body["status"])
	if status != loop.StatusOK && status != loop.StatusError {
		return "", invalid("status of a result must be %s or %s", loop.StatusOK, loop.StatusError)
	}
	r.mu.Lock()
	c, open := r.tally.open[id]
	ok := open && status == loop.StatusOK
	note := ok && c.tool == loop.ToolRecordNote
	refused := !open || c.running || ok && c.domain != loop.Sandboxed || note && r.notes == 0
	if !refused {
		if note {
			r.notes--
		}
		c.running = true // it is being written; a second result finds it taken
		body["tool"], _ = json.Marshal(c.tool)
	}
	r.mu.Unlock()
	if refused {
		return "", refuse(loop.CodeConflict, http.StatusConflict, "there is no allowed call of that id that lacks such a result")
	}
	written, err := r.author(ctx, loop.KindToolResult, body, []string{id})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if c.running = false; note {
			r.notes++
		}
		return "", err
	}
	r.tally.finish(id, status)
	return written, nil
}
