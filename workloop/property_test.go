package workloop_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"playground/inference"
	"playground/record"
	"playground/workloop"
	"playground/workloop/loop"
)

// plays is a model that follows the letters of a goal, one a turn: n notes, d is denied, b cannot be called, q asks a person, h hangs
// until it is ended, and the end of the letters ends the run.
func plays(ctx context.Context, r inference.Request, turn int) (inference.Response, error) {
	goal := regexp.MustCompile(`script=([a-z]*)`).FindStringSubmatch(r.Messages[0].Content[0].Text)
	if goal == nil || turn >= len(goal[1]) {
		return says("done"), nil
	}
	switch goal[1][turn] {
	case 'n':
		return calls(loop.ToolRecordNote, `{"text":"x"}`, loop.ToolRecordNote, `{"text":"y"}`), nil
	case 'd':
		return calls("explain_run", `{"thread":"x"}`), nil
	case 'b':
		return calls("nonsense", `{}`), nil
	case 'q':
		return calls(loop.ToolRecordNote, `{"text":"x"}`, "request_decision", `{"reason":"r","question":"q"}`), nil
	}
	<-ctx.Done()
	return inference.Response{}, ctx.Err()
}

// Whatever people do to runs, in whatever order, each run has one terminal outcome at the end, nothing follows it, and its tally is
// that of its records.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newRig(t, func(o *workloop.Options) { o.StopGrace = 30 * time.Millisecond; o.Capacity = 3 })
		g.rule("no-explain", "deny", `resource == "tool:explain_run"`)
		g.config(map[string]any{"topic": "actor_tier", "actor": alice, "tier": "team"})
		g.model.set(plays)
		var threads []string
		some := func(rt *rapid.T) string {
			if len(threads) == 0 {
				rt.Skip("no runs")
			}
			return threads[rapid.IntRange(0, len(threads)-1).Draw(rt, "run")]
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(rt *rapid.T) {
				principal := rapid.SampledFrom([]string{operator, alice, bob}).Draw(rt, "principal")
				script := rapid.StringMatching(`[ndbqh]{0,4}`).Draw(rt, "script")
				s, err := g.engine.Start(t.Context(), workloop.StartRequest{Principal: principal, Goal: "script=" + script})
				if err == nil {
					threads = append(threads, s.Thread)
				} else if !slices.Contains([]string{workloop.CodeAdmission, workloop.CodeConcurrency, workloop.CodeDailyCount}, codeOf(err)) {
					rt.Fatal(err)
				}
			},
			"stop":    func(rt *rapid.T) { g.tell(rt, some(rt), workloop.Event{Type: workloop.EventStop}) },
			"message": func(rt *rapid.T) { g.tell(rt, some(rt), workloop.Event{Type: workloop.EventMessage, Text: "hello"}) },
			"decide":  func(rt *rapid.T) { g.tell(rt, some(rt), workloop.Event{Type: workloop.EventDecision, Decision: "yes"}) },
			"die":     func(rt *rapid.T) { g.starter.kill(some(rt)) },
			"all at once": func(rt *rapid.T) {
				thread := some(rt)
				var wg sync.WaitGroup
				wg.Go(func() { g.tell(rt, thread, workloop.Event{Type: workloop.EventStop}) })
				wg.Go(func() { g.tell(rt, thread, workloop.Event{Type: workloop.EventDecision, Decision: "yes"}) })
				wg.Go(func() { g.starter.kill(thread) })
				wg.Wait()
			},
			"restart": func(rt *rapid.T) { g.close(); g.open() },
			"":        func(rt *rapid.T) { g.checkThreads(rt, threads, false) },
		})
		g.close()
		g.open()
		g.checkThreads(rt, threads, true)
		if h, err := g.engine.Health(t.Context()); err != nil || h.Available != h.Capacity {
			rt.Errorf("health is %+v, %v", h, err)
		}
		g.close()
		g.open() // for the rig's own end
	})
}

func codeOf(err error) string {
	if refusal, ok := err.(*loop.Refusal); ok {
		return refusal.Code
	}
	return fmt.Sprint(err)
}

// tell tells a run something; it may be too late, or too early, but never anything else.
func (g *rig) tell(rt *rapid.T, thread string, event workloop.Event) {
	err := g.engine.Event(context.Background(), thread, event)
	if err != nil && !slices.Contains([]string{workloop.CodeEnded, workloop.CodeWaiting, workloop.CodeNotWaiting, workloop.CodeAdmission, workloop.CodeConcurrency,
		workloop.CodeFlood}, codeOf(err)) {
		rt.Errorf("%s gives %v", event.Type, err)
	}
}

// checkThreads looks at what the log holds of each run. ended says that none is going.
func (g *rig) checkThreads(rt *rapid.T, threads []string, ended bool) {
	for _, thread := range threads {
		terminal, waiting, ok, results, fulfilled := 0, 0, 0, map[string]string{}, 0
		all := g.records(thread, "")
		var last map[string]any
		for i, r := range all {
			var b map[string]any
			if err := r.Decode(&b); err != nil {
				rt.Fatal(err)
			}
			if b["fulfills"] == all[0].ID {
				fulfilled++
			}
			switch record.Kind(r) {
			case workloop.KindOutcome:
				last = b
				if b["outcome"] == loop.AwaitingActor {
					waiting++
					continue
				}
				if terminal++; i != len(all)-1 {
					rt.Fatalf("something follows the outcome:\n%s", g.dump(thread))
				}
			case loop.KindToolCall:
				results[r.ID] = ""
			case loop.KindToolResult:
				id := b["fulfills"].(string)
				if was, known := results[id]; !known || was != "" {
					rt.Fatalf("a result of nothing, or a second one:\n%s", g.dump(thread))
				}
				if results[id] = b["status"].(string); results[id] == loop.StatusOK {
					ok++
				}
			}
		}
		if terminal > 1 || ended && terminal == 0 && waiting == 0 {
			rt.Fatalf("%d terminal outcomes:\n%s", terminal, g.dump(thread))
		}
		if terminal == 1 && (int(last["tool_calls_ok"].(float64)) != ok || int(last["tool_calls_failed"].(float64)) != len(results)-ok) {
			rt.Fatalf("the tally is %v and %v, the records say %d and %d:\n%s", last["tool_calls_ok"], last["tool_calls_failed"], ok, len(results)-ok, g.dump(thread))
		}
		row, err := g.engine.Run(context.Background(), thread)
		if err != nil {
			rt.Fatal(err)
		}
		if ended && (row.State == workloop.Running || terminal == 1 && row.State != last["state"] || terminal == 0 && row.State != workloop.WaitingOnYou) {
			rt.Fatalf("row is %+v:\n%s", row, g.dump(thread))
		}
		if fulfilled != terminal {
			rt.Fatalf("the anchor is fulfilled by something else:\n%s", g.dump(thread))
		}
	}
}
