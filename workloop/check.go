package workloop

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"playground/fault"
	"playground/policy"
	"playground/record"
	"playground/workloop/loop"
	"playground/workloop/tier"
)

// Check returns what record.Options.Check needs to keep the configuration thread in a state that can be acted on: a rule, hook,
// tier or assignment that could never work is refused when it is written, with the place of the fault in its text. So is what would
// be stored and never be in force: a rule that somebody relies on must not be lost on its way.
func Check(rules *policy.Evaluator) func(ctx context.Context, r record.Record) error {
	return func(_ context.Context, r record.Record) error {
		if r.Thread != record.ConfigThread {
			return nil
		}
		var head struct {
			Kind, Topic string
		}
		if err := json.Unmarshal(r.Body, &head); err != nil {
			return fault.New(fault.Invalid, "kind and topic of a config record must be texts")
		}
		switch topic := topicOf(head.Kind); {
		case r.Act != record.ActLearn && (head.Topic != "" || topic != "" || head.Kind == tier.Kind):
			return fault.New(fault.Invalid, "configuration is written with the act LEARN, not %.32q", string(r.Act)).WithHint("set the act to LEARN; a record of another one would change nothing")
		case topic != "" && head.Topic != topic:
			return fault.New(fault.Invalid, "body.topic of a %s must be %q", head.Kind, topic).WithHint("the configuration is looked up by its topic")
		case head.Topic == topicRule:
			return checkRule(rules, r.Body)
		case head.Topic == topicHook:
			return checkHook(rules, r.Body)
		case head.Kind == tier.Kind:
			_, err := tier.Parse(r.Body)
			return err
		case head.Topic == tier.TopicActor:
			assignment, err := tier.ParseAssignment(r.Body)
			if err != nil {
				return err
			}
			return record.ValidActor(assignment.Actor)
		}
		return nil
	}
}

// Topics are the topics of the configuration thread that the engine reads.
func Topics() []string {
	return []string{tier.TopicOperator, tier.TopicMembers, tier.TopicActor, topicRule, topicHook}
}

// topicOf is the topic that records of a kind must have; "" is any.
func topicOf(kind string) string {
	switch kind {
	case kindRule:
		return topicRule
	case kindHook:
		return topicHook
	}
	return ""
}

func checkRule(rules *policy.Evaluator, body json.RawMessage) error {
	rule, err := policy.ParseRule(body)
	if err != nil {
		return err
	}
	return rules.Check(rule.Expression, policy.Permission)
}

func checkHook(rules *policy.Evaluator, body json.RawMessage) error {
	hook, err := policy.ParseHook(body)
	if err != nil {
		return err
	}
	return rules.Check(hook.When, policy.Observer)
}

// MayWrite returns nil if a client that is, or is not, of the operator's class may write r: a refusal CONFIG_WRITE_DENIED where it
// may not write configuration, and WRITE_KIND_NOT_ADMITTED for the kinds that are the kernel's word or a run's own.
func MayWrite(r record.Record, operator bool) error {
	if r.Thread == record.ConfigThread && !operator {
		return refuse(CodeConfigDenied, http.StatusForbidden, "only the operator writes to %s", record.ConfigThread)
	}
	kind := record.Kind(r)
	if slices.ContainsFunc(ownKinds(), func(own string) bool { return unversioned(own) == unversioned(kind) }) {
		return refuse(loop.CodeKindNotAdmitted, http.StatusForbidden, "records of kind %s are written by the kernel and by runs alone", kind)
	}
	return nil
}

// unversioned is a kind without its version. Who reads a log looks for kinds of any: another version of the kernel's word is its word.
func unversioned(kind string) string {
	i := strings.LastIndexByte(kind, '.')
	if i < 0 || !strings.HasPrefix(kind[i:], ".v") {
		return kind
	}
	if _, err := strconv.ParseUint(kind[i+2:], 10, 64); err != nil {
		return kind
	}
	return kind[:i]
}

// ownKinds are the kinds that no client writes.
func ownKinds() []string {
	return []string{
		KindLoop, loop.KindToolCall, KindToolVerdict, loop.KindToolResult, KindOutcome, KindCancel, KindRequest, KindDecision,
		KindMessage, KindUsage, KindRetired, loop.KindTurn, loop.KindObservation, loop.KindGuardrail, loop.KindCoercion,
	}
}
