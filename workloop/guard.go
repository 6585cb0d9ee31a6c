package workloop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"playground/policy"
	"playground/record"
	"playground/workloop/loop"
)

// namespace is the one that rules and runs are in where nothing else is said.
const namespace = "default"

// A judgment is the guard's answer to one proposal.
type judgment struct {
	decision, layer string
	rule, version   string
	reason, change  string
	skipped         []string
}

// judge asks the layers in order: stop, grant, clamp, rule, allow. The rules are those in force now, so one that was written a moment
// ago holds for this call. It is the one evaluator of both transports. An error is no judgment: the call is refused.
func (r *run) judge(ctx context.Context, p loop.Proposal) (judgment, error) {
	if by := r.stopped(); by != "" {
		return judgment{decision: loop.Stop, layer: loop.LayerStop, reason: "the run was stopped by " + by, change: "nothing; start another run"}, nil
	}
	if _, granted := r.plan.granting(p.Tool); !granted {
		return r.outOfReach(p.Tool), nil
	}
	if slices.Contains(r.plan.forbidden, p.Tool) {
		return judgment{decision: loop.Deny, layer: loop.LayerClamp, reason: "the request of this run forbids the tool",
			change: "a run that is started without it in forbidden_tools"}, nil
	}
	rules, err := r.e.settings.permissionRules(ctx)
	if err != nil {
		return judgment{}, err
	}
	if len(rules) == 0 {
		return judgment{decision: loop.Allow, layer: loop.LayerAllow, reason: "nothing objected"}, nil
	}
	var args any
	if err := json.Unmarshal(p.Args, &args); err != nil {
		return judgment{}, invalid("the arguments are not JSON")
	}
	d := r.e.o.Rules.Decide(rules, policy.Subject{
		Actor: r.plan.actor, Namespace: namespace, Resource: "tool:" + p.Tool, Now: r.e.now(),
		// A member's run may act as an agent: a rule about the member asks for the principal.
		System: map[string]any{"principal": r.plan.principal, "tier": string(r.plan.tier), "transport": string(r.plan.transport)},
		Record: map[string]any{
			"act": string(record.ActCall), "actor": r.plan.actor, "thread": r.thread, "clock": int64(0), "data_type": record.Scalar,
			"parents": []any{r.anchor}, "body": map[string]any{"tool": p.Tool, "args": args},
		},
	})
	j := judgment{decision: loop.Allow, layer: loop.LayerAllow, rule: d.Rule, version: d.Version, skipped: d.Skipped, reason: "nothing objected"}
	switch d.Action {
	case policy.Deny:
		j.decision, j.layer = loop.Deny, loop.LayerRule
		j.reason, j.change = fmt.Sprintf("the rule %q denies it", d.Rule), "another tool or other arguments, or a change of the rule by the operator"
	case policy.Allow:
		j.reason = fmt.Sprintf("the rule %q allows it", d.Rule)
	case "":
	default: // what is not known is not allowed
		j.decision, j.layer, j.reason = loop.Deny, loop.LayerRule, "the rule's action is unknown"
	}
	return j, nil
}

// outOfReach is the judgment of a tool that the run was not granted.
func (r *run) outOfReach(name string) judgment {
	j := judgment{decision: loop.Deny, layer: loop.LayerGrant, reason: "the tool is not in this run's reach", change: "a run that is granted it"}
	switch {
	case slices.Contains(r.plan.narrowed, name):
		j.reason, j.change = "the tool is withheld: a sandboxed run cannot be served it", "a run in process"
	case slices.Contains(r.plan.limits.Forbidden, name):
		j.reason, j.change = fmt.Sprintf("tier %s forbids the tool", r.plan.tier), "nothing that this principal can do"
	}
	return j
}
