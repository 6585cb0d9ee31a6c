package tier_test

import (
	"encoding/json"
	"errors"
	"testing"

	"playground/fault"
	"playground/workloop/tier"
)

func raw(texts ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, t := range texts {
		out = append(out, json.RawMessage(t))
	}
	return out
}

func TestParse(t *testing.T) {
	for _, good := range []string{
		`{"kind":"core.engine.tier.v1","tier":"paid","max_turns":3,"default_budget_usd":0.5}`,
		`{"kind":"core.engine.tier.v1","tier":"operator","daily_cost_cap_usd":0}`,
		`{"kind":"core.engine.tier.v1","topic":"tier","namespace":"default","tier":"trial","concurrency":0}`,
	} {
		if _, err := tier.Parse(json.RawMessage(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		``, `[]`, `{}`, `{"tier":"gold"}`, `{"tier":"paid","max_turns":0}`, `{"tier":"paid","max_turns":-1}`, `{"tier":"paid","max_turns":1.5}`,
		`{"tier":"paid","forbidden_tools":[]}`, `{"tier":"paid","daily_cost_cap_usd":-1}`, `{"tier":"paid","default_budget_usd":0}`,
		`{"tier":"paid"}{"tier":"paid"}`, `{"tier":"paid","token_budget":"many"}`, `{"tier":"paid","wall_clock_secs":0}`,
	} {
		if _, err := tier.Parse(json.RawMessage(bad)); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestFold(t *testing.T) {
	changes := raw(`{"tier":"paid","max_turns":3}`, `{"tier":"team","max_turns":4}`, `{"tier":"paid","concurrency":2,"max_turns":7}`, `{"tier":"paid","max_turns":-9}`)
	l := tier.Fold(tier.Paid, changes)
	if l.MaxTurns != 7 || l.Concurrency != 2 || l.WallClockSecs != 600 || l.DailyCostCapUSD != 5 {
		t.Errorf("paid is %+v", l)
	}
	if l := tier.Fold("gold", changes); l.MaxTurns != 5 {
		t.Errorf("an unknown tier is %+v", l)
	}
	if l := tier.Builtin(tier.Operator); l.MaxTurns != tier.None || l.DailyCostCapUSD != tier.None || len(l.Forbidden) != 0 || l.MaxTreeLoops <= 0 {
		t.Errorf("operator is %+v", l)
	}
}

func TestOf(t *testing.T) {
	const a, owner = "did:sync:user:a", "did:sync:user:owner"
	for _, c := range []struct {
		bodies []json.RawMessage
		want   tier.Name
	}{
		{nil, tier.Trial},
		{raw(`{"actor":"did:sync:user:a","tier":"paid"}`), tier.Paid},
		{raw(`{"actor":"did:sync:user:a","tier":"operator"}`), tier.Team},
		{raw(`{"actor":"did:sync:user:a","tier":"team"}`, `{"actor":"did:sync:user:a","tier":""}`), tier.Trial},
		{raw(`{"actor":"did:sync:user:a","tier":"team"}`, `{"actor":"did:sync:user:b","tier":"paid"}`), tier.Team},
		{raw(`{"actor":"did:sync:user:a","tier":"paid"}`, `{"actor":"did:sync:user:a","tier":"gold"}`, `nonsense`), tier.Paid},
	} {
		if got := tier.Of(a, owner, c.bodies); got != c.want {
			t.Errorf("%s gives %s, want %s", c.bodies, got, c.want)
		}
	}
	if got := tier.Of(owner, owner, raw(`{"actor":"did:sync:user:owner","tier":"trial"}`)); got != tier.Operator {
		t.Errorf("the owner is %s", got)
	}
	if got := tier.Of("", "", nil); got != tier.Trial {
		t.Errorf("nobody is %s", got)
	}
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"tier":"paid","max_turns":3}`))
	f.Add([]byte(`{"actor":"did:sync:user:a","tier":"team","transport":"sandboxed"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		bodies := []json.RawMessage{body}
		l := tier.Fold(tier.Trial, bodies)
		if l.MaxTurns < 1 || l.DailyCostCapUSD < 0 || l.DefaultBudgetUSD <= 0 || l.Concurrency < 0 {
			t.Errorf("%s gives %+v", body, l)
		}
		if got := tier.Of("did:sync:user:a", "did:sync:user:owner", bodies); got == tier.Operator {
			t.Errorf("%s makes an operator", body)
		}
		for _, operator := range []bool{true, false} {
			if got := tier.TransportOf(operator, bodies); got != tier.InProcess && got != tier.Sandboxed {
				t.Errorf("%s gives transport %q", body, got)
			}
		}
	})
}
