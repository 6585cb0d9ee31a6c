package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"playground/record"
	"playground/workloop/loop"
)

// Bounds of the record tools.
const (
	maxThreads  = 200
	maxFound    = 100
	maxMemory   = 8 << 10 // bytes of one memory
	maxQuestion = 8 << 10
	maxOptions  = 16
	maxOption   = 512
	maxClaims   = 16
)

// KindMemory is the kind of what an actor remembers.
const KindMemory = "core.actor.memory.v1"

func recordTools() []loop.Tool {
	return []loop.Tool{
		define("list_threads", "List the threads that you may read: id, number of records, state and authors.",
			`"limit":{"type":"integer","minimum":1,"maximum":200}`),
		define("search_records", "Find records whose body holds a text, or that match a filter, in the threads that you may read.",
			`"text":{"type":"string","description":"what the body's text field holds"},"kind":{"type":"string"},"thread":{"type":"string"},`+
				`"filter":{"type":"object","description":"conditions as of query_thread"},"limit":{"type":"integer","minimum":1,"maximum":100}`),
		define("list_actors", "List the actors that runs are for, with their tiers.", ``),
		define("explain_run", "Show the row of a run: its state, limits, what it spent and how its tool calls went.",
			`"thread":{"type":"string"}`, "thread"),
		define("request_decision", "Ask the person you work for to decide, and stop until they have. Use it where you must not, or cannot, decide yourself.",
			`"reason":{"type":"string","description":"why you cannot decide"},"question":{"type":"string"},`+
				`"options":{"type":"array","items":{"type":"string"},"maxItems":16},"context":{"type":"string"},`+
				`"claims":{"type":"array","items":{"type":"string"},"maxItems":16,"description":"ids of records that the question rests on"}`, "reason", "question"),
		define("remember", "Keep a short text for later runs of the same actor.", `"text":{"type":"string","maxLength":8192},"topic":{"type":"string"}`, "text"),
	}
}

// records are the tools over the log.
type records struct{ env Env }

func (r *records) tools() map[string]run {
	return map[string]run{
		"list_threads": r.threads, "search_records": r.search, "list_actors": r.actors, "explain_run": r.explain,
		"request_decision": r.decision, "remember": r.remember,
	}
}

func (r *records) threads(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Limit int `json:"limit"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	limit := bound(in.Limit, maxThreads)
	visible, all := r.env.Kernel.Visible()
	var threads []record.Thread
	if all {
		var err error
		if threads, err = r.env.Log.Threads(ctx, 0, limit); err != nil {
			return loop.Result{}, err
		}
	} else {
		for _, id := range visible[:min(len(visible), limit)] {
			thread, err := r.env.Log.Thread(ctx, id)
			if err != nil {
				continue // a declared read may be empty as yet
			}
			threads = append(threads, thread)
		}
	}
	var b strings.Builder
	for _, t := range threads {
		fmt.Fprintf(&b, "%s  %d records  %s  %s\n", t.ID, t.Records, t.State, strings.Join(t.Participants, " "))
	}
	return answer(b.String(), map[string]any{"threads": threads, "shown": len(threads)})
}

func (r *records) search(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Text   string          `json:"text"`
		Kind   string          `json:"kind"`
		Thread string          `json:"thread"`
		Filter json.RawMessage `json:"filter"`
		Limit  int             `json:"limit"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	var conditions []any
	if in.Text != "" {
		conditions = append(conditions, map[string]any{"body.text": map[string]any{"$ilike": "%" + likeText(in.Text) + "%"}})
	}
	if in.Kind != "" {
		conditions = append(conditions, map[string]any{"body.kind": in.Kind})
	}
	if len(in.Filter) > 0 {
		conditions = append(conditions, in.Filter)
	}
	if len(conditions) == 0 {
		return loop.Result{}, &argumentError{"give text, kind or filter"}
	}
	visible, all := r.env.Kernel.Visible()
	switch {
	case all:
	case in.Thread == "":
		conditions = append(conditions, map[string]any{"thread": map[string]any{"$in": visible}})
	case !slices.Contains(visible, in.Thread):
		return failed(loop.CodeReadsNotCovered, "That thread is not among those you may read."), nil
	}
	filter, err := json.Marshal(map[string]any{"$and": conditions})
	if err != nil {
		return loop.Result{}, err
	}
	page, err := r.env.Kernel.Query(ctx, record.Query{Thread: in.Thread, Filter: filter, Limit: bound(in.Limit, maxFound),
		Sort: record.Sort{{Field: "created_at", Descending: true}}})
	if err != nil {
		return loop.Result{}, err
	}
	var b strings.Builder
	found := make([]map[string]any, len(page.Data))
	for i, rec := range page.Data {
		fmt.Fprintf(&b, "%s #%d %s %s %s\n", rec.Thread, rec.Clock, rec.Actor, record.Kind(rec), loop.Bound(string(rec.Body), lineBytes))
		found[i] = map[string]any{"id": rec.ID, "thread": rec.Thread, "clock": rec.Clock, "kind": record.Kind(rec)}
	}
	data := map[string]any{"records": found, "total": page.MatchedTotal, "truncated": page.Capped}
	if in.Thread != "" { // then it was a read of that thread, which the observations look at
		data["thread"] = in.Thread
	}
	return answer(b.String(), data)
}

// likeText keeps a text from being read as a pattern.
func likeText(text string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)
}

func (r *records) actors(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	if err := decode(args, &struct{}{}); err != nil {
		return loop.Result{}, err
	}
	actors, err := r.env.Kernel.Actors(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	var b strings.Builder
	for _, a := range actors {
		fmt.Fprintf(&b, "%s  %s  %d runs\n", a.DID, a.Tier, a.Runs)
	}
	return answer(b.String(), map[string]any{"actors": actors})
}

func (r *records) explain(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Thread string `json:"thread"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	if err := need("thread", in.Thread); err != nil {
		return loop.Result{}, err
	}
	row, err := r.env.Kernel.Explain(ctx, in.Thread)
	if err != nil {
		return loop.Result{}, err
	}
	text, err := json.MarshalIndent(row, "", " ")
	if err != nil {
		return loop.Result{}, err
	}
	return answer(string(text), row)
}

func (r *records) decision(ctx context.Context, call string, args json.RawMessage) (loop.Result, error) {
	var q Question
	if err := decode(args, &q); err != nil {
		return loop.Result{}, err
	}
	if err := need("question", q.Question); err != nil {
		return loop.Result{}, err
	}
	if err := need("reason", q.Reason); err != nil {
		return loop.Result{}, err
	}
	if len(q.Question)+len(q.Reason)+len(q.Context) > maxQuestion || len(q.Options) > maxOptions || len(q.Claims) > maxClaims {
		return loop.Result{}, &argumentError{"the question is too long, or has too many options or claims"}
	}
	for i, option := range q.Options {
		if strings.TrimSpace(option) == "" || len(option) > maxOption || slices.Contains(q.Options[:i], option) {
			return loop.Result{}, &argumentError{"an option is empty, too long, or there twice"}
		}
	}
	for _, claim := range q.Claims { // a person is not asked about what is not there
		if rec, err := r.env.Log.Get(ctx, claim); err != nil || !r.sees(rec.Thread) {
			return loop.Result{}, &argumentError{fmt.Sprintf("claim %.80q is not the id of a record that you may read", claim)}
		}
	}
	if err := r.env.Kernel.Ask(ctx, call, q); err != nil {
		return loop.Result{}, err
	}
	return loop.Result{Status: loop.StatusOK, Content: "Asked: " + q.Question + "\nThe run waits for the answer.", Park: true}, nil
}

// sees reports whether the run may look into a thread.
func (r *records) sees(thread string) bool {
	visible, all := r.env.Kernel.Visible()
	return all || slices.Contains(visible, thread)
}

func (r *records) remember(ctx context.Context, call string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Text  string `json:"text"`
		Topic string `json:"topic"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	if err := need("text", in.Text); err != nil {
		return loop.Result{}, err
	}
	if len(in.Text)+len(in.Topic) > maxMemory {
		return loop.Result{}, &argumentError{fmt.Sprintf("a memory has at most %d bytes", maxMemory)}
	}
	body := map[string]any{"kind": KindMemory, "text": in.Text, "call": call}
	if in.Topic != "" {
		body["topic"] = in.Topic
	}
	saved, err := r.env.Log.Append(ctx, record.Draft{Thread: r.env.Memory, Actor: r.env.Actor, Act: record.ActLearn, Body: body})
	if err != nil {
		return loop.Result{}, err
	}
	return answer("remembered", map[string]any{"record": saved[0].ID})
}

// bound returns a limit between 1 and most; 0 asks for most.
func bound(limit, most int) int {
	if limit <= 0 || limit > most {
		return most
	}
	return limit
}
