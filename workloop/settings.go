package workloop

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"playground/policy"
	"playground/record"
	"playground/workloop/tier"
)

const (
	topicRule = "permission_rule"
	topicHook = "hook"
	kindRule  = "core.permission_rule.v1"
	kindHook  = "core.hook.v1"
)

// settings read the configuration thread. Every answer is of what was written last; what is kept is only the parsed form of
// records that have not changed since.
type settings struct {
	log      *record.Log
	operator string
	rules    folded[policy.Rule]
	hooks    folded[policy.Hook]
}

// folded keeps the parsed records of one topic.
type folded[T any] struct {
	mu     sync.Mutex // guards what follows
	last   string     // id of the newest record of the fold
	count  int
	values []T
}

// of returns the values in force: for each name that of its newest record, in the order of names. parse reports the name and
// whether the value is enabled; what it cannot parse changes nothing, as it would never have been let in.
func (f *folded[T]) of(records []record.Record, parse func(record.Record) (name string, enabled bool, value T, err error)) []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := ""
	if len(records) > 0 {
		last = records[len(records)-1].ID
	}
	if f.last == last && f.count == len(records) {
		return f.values
	}
	byName := map[string]T{}
	for _, r := range records {
		name, enabled, value, err := parse(r)
		switch {
		case err != nil:
		case enabled:
			byName[name] = value
		default:
			delete(byName, name)
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	values := make([]T, len(names))
	for i, name := range names {
		values[i] = byName[name]
	}
	f.last, f.count, f.values = last, len(records), values
	return values
}

// permissionRules returns the rules in force.
func (s *settings) permissionRules(ctx context.Context) ([]policy.Rule, error) {
	records, err := s.log.Config(ctx, topicRule)
	if err != nil {
		return nil, err
	}
	return s.rules.of(records, func(r record.Record) (string, bool, policy.Rule, error) {
		rule, err := policy.ParseRule(r.Body)
		rule.Record = r.ID
		return rule.Name, rule.Enabled, rule, err
	}), nil
}

// hooksInForce returns the hooks in force.
func (s *settings) hooksInForce(ctx context.Context) ([]policy.Hook, error) {
	records, err := s.log.Config(ctx, topicHook)
	if err != nil {
		return nil, err
	}
	return s.hooks.of(records, func(r record.Record) (string, bool, policy.Hook, error) {
		hook, err := policy.ParseHook(r.Body)
		return hook.Name, hook.Enabled, hook, err
	}), nil
}

// tierOf returns a principal's tier and its limits.
func (s *settings) tierOf(ctx context.Context, principal string) (tier.Name, tier.Limits, error) {
	assignments, err := s.log.Config(ctx, tier.TopicActor)
	if err != nil {
		return "", tier.Limits{}, err
	}
	name := tier.Of(principal, s.operator, bodies(assignments))
	changes, err := s.log.List(ctx, record.ListQuery{Thread: record.ConfigThread, Kinds: []string{tier.Kind}})
	if err != nil {
		return "", tier.Limits{}, err
	}
	changes = slices.DeleteFunc(changes, func(r record.Record) bool { return r.Act != record.ActLearn })
	return name, tier.Fold(name, bodies(changes)), nil
}

// transport returns where a new run of the operator, or of everybody else, goes.
func (s *settings) transport(ctx context.Context, operator bool) (tier.Transport, error) {
	topic := tier.TopicMembers
	if operator {
		topic = tier.TopicOperator
	}
	records, err := s.log.Config(ctx, topic)
	if err != nil {
		return "", err
	}
	return tier.TransportOf(operator, bodies(records)), nil
}

func bodies(records []record.Record) []json.RawMessage {
	out := make([]json.RawMessage, len(records))
	for i, r := range records {
		out[i] = r.Body
	}
	return out
}
