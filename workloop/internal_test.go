package workloop

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"playground/inference"
	"playground/workloop/loop"
	"playground/workloop/tier"
)

func TestCapacity(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		override int
		memory   int64
		want     int
	}{{0, 0, 1}, {0, 100 << 20, 1}, {0, gib, 2}, {0, 4 * gib, 8}, {0, 64 * gib, 16}, {3, 64 * gib, 3}, {40, gib, 40}} {
		if got := capacity(c.override, c.memory); got != c.want {
			t.Errorf("%+v gives %d", c, got)
		}
	}
}

func TestCredential(t *testing.T) {
	now := time.Now()
	secret, c := mint(now, time.Minute)
	other, _ := mint(now, time.Minute)
	if !c.matches(secret, now) || !c.matches(secret, now.Add(119*time.Second)) {
		t.Error("the secret does not match")
	}
	if c.matches(secret, now.Add(120*time.Second)) || c.matches(other, now) || c.matches("", now) || (*credential)(nil).matches(secret, now) {
		t.Error("something else matches")
	}
	if _, c := mint(now, 0); !c.expires.Equal(now.Add(24 * time.Hour)) {
		t.Errorf("without a wall clock it expires at %s", c.expires)
	}
}

func TestShorten(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	messages := []inference.Message{
		{Role: "user", Content: []inference.Block{{Text: big}}},
		{Role: "assistant", Content: []inference.Block{{Input: json.RawMessage(`{"a":"` + big + `"}`)}}},
		{Role: "user", Content: []inference.Block{{Text: "the newest"}}},
	}
	shorten(messages)
	if len(messages[0].Content[0].Text) > 1024 || len(messages[1].Content[0].Input) < 3<<20 || messages[2].Content[0].Text != "the newest" {
		t.Error("the oldest is not what was cut")
	}
}

// Whatever a worker says, the outcome is one of the known words, and a success only where the model ended the run itself.
func FuzzClaim(f *testing.F) {
	for _, seed := range []string{`{"outcome":"completed"}`, `{"outcome":"budget_exhausted","budget_kind":"usd"}`, "\n\n{}\n", `{"outcome":"` + strings.Repeat("x", 300) + `"}`,
		"report\n" + `{"outcome":"failed","error":"x"}` + "\n"} {
		f.Add([]byte(seed), true, true)
	}
	known := []string{loop.Completed, loop.Failed, loop.Blocked, loop.MaxTurns, loop.BudgetExhausted, loop.GuardrailHalt}
	account := inference.NewBroker(inference.Echo{}, inference.EchoModel, inference.Prices()).Open(nil, 0)
	f.Fuzz(func(t *testing.T, said []byte, final, clean bool) {
		r := &run{e: &Engine{o: Options{Now: time.Now}}, plan: &plan{maxTurns: tier.None}, account: account, started: time.Now(), anchor: "a", turns: 1, final: final}
		end := ending{}
		if end.claim, end.claimed = readClaim(said); !clean {
			end.problem = "it died"
		}
		o := r.weigh(end, nil)
		if !slices.Contains(known, o.Outcome) || o.Success && !(final && clean && end.claimed) || o.Success != (o.State == Done) || o.Fulfills != "a" {
			t.Errorf("%q gives %+v", said, o)
		}
		if raw, err := json.Marshal(o); err != nil || len(raw) > 1<<18 {
			t.Errorf("the outcome has %d bytes, %v", len(raw), err)
		}
	})
}

// A credential always has a ceiling. Should one ever be minted without, it asks no model.
func TestNoCeilingNoModel(t *testing.T) {
	broker := inference.NewBroker(inference.Echo{}, "echo", inference.Prices())
	r := &run{plan: &plan{transport: tier.Sandboxed, model: "echo"}, account: broker.Open(nil, 0)}
	if err := r.beginReply(); !errors.Is(err, &loop.Refusal{Code: loop.CodeBudgetRequired}) {
		t.Errorf("a model call without a ceiling: %v", err)
	}
}
