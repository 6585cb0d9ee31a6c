package workloop_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"playground/inference"
	"playground/policy"
	"playground/record"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// benchEngine is an engine on a log of its own with rules permission rules.
func benchEngine(b *testing.B, m *model, s *starter, transport string, rules int) *workloop.Engine {
	b.Helper()
	evaluator := policy.New(256)
	log, err := record.Open(filepath.Join(b.TempDir(), "log.db"), record.Options{Check: workloop.Check(evaluator)})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := log.Append(b.Context(), record.Draft{Thread: record.ConfigThread, Actor: record.EngineDID, Act: record.ActLearn, Body: map[string]any{
		"topic": "work_loop_transport", "transport": transport}}); err != nil {
		b.Fatal(err)
	}
	for i := range rules {
		_, err := log.Append(b.Context(), record.Draft{Thread: record.ConfigThread, Actor: record.EngineDID, Act: record.ActLearn, Body: map[string]any{
			"topic": "permission_rule", "name": fmt.Sprint("rule-", i), "namespace": "default", "action": "deny", "priority": i, "enabled": true,
			"expression": fmt.Sprintf(`resource == "tool:bash" && record.body.args.command.contains("x%d")`, i),
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	e, err := workloop.New(b.Context(), workloop.Options{Log: log, Rules: evaluator, Starter: s, Operator: operator,
		Broker: inference.NewBroker(m, "test", map[string]inference.Price{"test": {}})})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = e.Close(context.Background())
		_ = log.Close()
	})
	return e
}

// report adds the middle and the 95th percentile in microseconds.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds()), "p95-µs")
}

// The verdict as a worker sees it: over the door, call and verdict durable. The percentiles are of the verdict alone.
func BenchmarkVerdict(b *testing.B) {
	for _, rules := range []int{0, 10} {
		b.Run(fmt.Sprint(rules, " rules"), func(b *testing.B) {
			m, s := &model{}, &starter{}
			m.set(steps(calls(loop.ToolRecordNote, `{"text":"x"}`)))
			e := benchEngine(b, m, s, "sandboxed", rules)
			var took []time.Duration
			done := make(chan struct{})
			s.set(func(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
				defer close(done)
				k := doors.NewClient(conn, h.Credential)
				for i := 0; b.Loop(); i++ {
					if i%100 == 0 {
						if err := ask(ctx, k); err != nil {
							b.Error(err)
							return nil, workloop.Exit{}
						}
					}
					begin := time.Now()
					v, err := propose(ctx, k, loop.ToolRecordNote, `{"text":"x"}`)
					took = append(took, time.Since(begin))
					result := loop.ToolResultBody{Fulfills: v.Call, Status: loop.StatusError}
					if _, resultErr := k.Append(ctx, loop.Entry{Kind: loop.KindToolResult, Act: record.ActKnow, Body: result}); err != nil || resultErr != nil {
						b.Error(err, resultErr)
					}
				}
				return nil, workloop.Exit{}
			})
			if _, err := e.Start(b.Context(), workloop.StartRequest{Goal: "x"}); err != nil {
				b.Fatal(err)
			}
			<-done
			report(b, took)
		})
	}
}

// From the request to the first call of the model, in process.
func BenchmarkFirstTurn(b *testing.B) {
	m := &model{}
	first := make(chan time.Time, 1)
	m.set(func(context.Context, inference.Request, int) (inference.Response, error) {
		first <- time.Now()
		return says("done"), nil
	})
	e := benchEngine(b, m, &starter{}, "in_process", 0)
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := e.Start(b.Context(), workloop.StartRequest{Goal: "x"}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-first).Sub(begin))
	}
	report(b, took)
}
