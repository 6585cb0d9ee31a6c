package workloop

import (
	"context"
	"maps"
	"slices"

	"playground/record"
	"playground/workloop/tool"
)

// maxVisible bounds the runs of a principal that its tools look into. With the declared reads it stays under what one query takes.
const maxVisible = 400

// A view is what the tools of a run may know of the engine: the operator's run all, a member's run what is of its own principal.
type view run

var _ tool.Kernel = (*view)(nil)

// Visible implements tool.Kernel.
func (v *view) Visible() (threads []string, all bool) {
	if v.plan.operator {
		return nil, true
	}
	mine, _ := v.e.index.newest(0, v.plan.owns)
	for _, n := range mine[:min(len(mine), maxVisible)] {
		threads = append(threads, n.thread)
	}
	threads = append(threads, v.plan.reads...)
	threads = append(threads, v.plan.memory())
	if !slices.Contains(threads, v.thread) {
		threads = append(threads, v.thread)
	}
	return threads, false
}

// Query implements tool.Kernel.
func (v *view) Query(ctx context.Context, q record.Query) (record.Page, error) {
	return (*run)(v).query(ctx, q)
}

// Explain implements tool.Kernel. Another principal's run reads like one that is not there.
func (v *view) Explain(ctx context.Context, thread string) (any, error) {
	n, ok := v.e.index.get(thread)
	if !ok || !v.plan.operator && !v.plan.owns(n) {
		return nil, notFound("run", thread)
	}
	return v.e.Run(ctx, thread)
}

// Actors implements tool.Kernel.
func (v *view) Actors(ctx context.Context) ([]tool.Actor, error) {
	runs := map[string]int{v.plan.principal: 0}
	all, _ := v.e.index.newest(0, func(n entry) bool { return v.plan.operator || v.plan.owns(n) })
	for _, n := range all {
		runs[n.principal]++
	}
	actors := []tool.Actor{}
	for _, did := range slices.Sorted(maps.Keys(runs)) {
		name, _, err := v.e.settings.tierOf(ctx, did)
		if err != nil {
			return nil, err
		}
		actors = append(actors, tool.Actor{DID: did, Tier: string(name), Runs: runs[did]})
	}
	return actors, nil
}

// Ask implements tool.Kernel: it records the question and parks the run. From then on it may call no tool and no model.
func (v *view) Ask(ctx context.Context, id string, q tool.Question) error {
	r := (*run)(v)
	if q.Options == nil {
		q.Options = []string{}
	}
	ids, err := r.pen.write(ctx, line{record.ActKnow, func([]string) (any, []string) {
		return requestBody{Kind: KindRequest, Requester: r.plan.actor, Decider: r.e.o.Operator, Call: id, Awaits: "actor_decision",
			Question: q.Question, Options: q.Options, Context: q.Context, Reason: q.Reason, Claims: q.Claims}, []string{id}
	}})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.request == "" {
		r.request = ids[0]
		close(r.parking)
	}
	return nil
}
