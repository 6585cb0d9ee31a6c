package main

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"playground/daemon"
	"playground/fault"
	"playground/record"
	"playground/workloop"
	"playground/workloop/loop"
)

// Log events of the work loop, beside those of workloop.Notice.
const (
	eventStartRefused = "run start refused"
	eventAdmission    = "admission refused"
	eventDamaged      = "record_log_damaged"
	eventAudit        = "record_audit" // whether the kernel keeps the audit files from being changed
)

// workCounts are the metrics of the work loop. What the log tells is counted from the log: it is what everybody else sees too.
// No label has a value that a client chooses.
type workCounts struct {
	records, outcomes, verdicts, refused *prometheus.CounterVec
	cost                                 prometheus.Counter
}

func newWorkCounts() *workCounts {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &workCounts{
		records:  vec("playground_records_total", "Records appended, by kind: those of runs by name, all others as other.", "kind"),
		outcomes: vec("playground_runs_total", "Ended runs by outcome and transport.", "outcome", "transport"),
		verdicts: vec("playground_tool_verdicts_total", "Judged tool calls by decision and layer.", "decision", "layer"),
		refused:  vec("playground_run_starts_refused_total", "Refused starts by code.", "code"),
		cost:     prometheus.NewCounter(prometheus.CounterOpts{Name: "playground_model_cost_usd_total", Help: "What ended runs spent on models."}),
	}
}

// register adds the metrics, and the gauges of admission, which are asked for at each scrape.
func (c *workCounts) register(registry *prometheus.Registry, engine *workloop.Engine) {
	gauge := func(name, help string, value func(workloop.Health) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
			defer cancel()
			health, err := engine.Health(ctx)
			if err != nil {
				return -1
			}
			return float64(value(health))
		})
	}
	registry.MustRegister(c.records, c.outcomes, c.verdicts, c.refused, c.cost,
		gauge("playground_admission_capacity", "Confined workers that may run at once.", func(h workloop.Health) int { return h.Capacity }),
		gauge("playground_admission_available", "How many more may start now.", func(h workloop.Health) int { return h.Available }))
}

// count reads what a record tells.
func (c *workCounts) count(r record.Record) {
	kind := record.Kind(r)
	switch kind {
	case workloop.KindOutcome:
		var body struct {
			Outcome, Transport string
			SpentUSD           float64 `json:"spent_usd"`
		}
		if r.Actor == record.EngineDID && r.Decode(&body) == nil && body.Outcome != loop.AwaitingActor {
			c.outcomes.WithLabelValues(body.Outcome, body.Transport).Inc()
			c.cost.Add(max(body.SpentUSD, 0))
		}
	case workloop.KindToolVerdict:
		var body struct{ Decision, Layer string }
		if r.Actor == record.EngineDID && r.Decode(&body) == nil {
			c.verdicts.WithLabelValues(body.Decision, body.Layer).Inc()
		}
	case workloop.KindLoop, loop.KindToolCall, loop.KindToolResult, loop.KindTurn, loop.KindNote, loop.KindObservation, loop.KindGuardrail, loop.KindCoercion:
	default:
		kind = "other"
	}
	c.records.WithLabelValues(kind).Inc()
}

// watch counts the records that are appended from now on.
func (w *work) watch() daemon.Task {
	return daemon.NewTask("work metrics", func(ctx context.Context, ready func()) error {
		last, err := w.log.Query(ctx, record.Query{Limit: 1})
		if err != nil {
			return err
		}
		ready()
		for r, err := range w.log.Watch(ctx, record.WatchQuery{After: last.MatchedTotal}) {
			if err != nil {
				return err
			}
			w.counts.count(r)
		}
		return nil
	})
}

// notices writes what the engine tells to the daemon's log.
type notices struct {
	logger zerolog.Logger
	counts *workCounts
}

// take is for workloop.Options.Notify.
func (n notices) take(notice workloop.Notice) {
	level := zerolog.InfoLevel
	switch notice.Event {
	case workloop.NoticeIsolation, workloop.NoticeError:
		level = zerolog.ErrorLevel
	case workloop.NoticeRule:
		level = zerolog.WarnLevel
	}
	e := n.logger.WithLevel(level)
	for _, field := range []struct{ name, value string }{
		{"thread", notice.Thread}, {"principal", notice.Principal}, {"actor", notice.Actor}, {"tool", notice.Tool}, {"rule", notice.Rule}, {"outcome", notice.Outcome},
	} {
		if field.value != "" {
			e = e.Str(field.name, field.value)
		}
	}
	if notice.PID != 0 {
		e = e.Int("pid", notice.PID)
	}
	if len(notice.Layers) > 0 {
		e = e.Strs("layers", notice.Layers)
	}
	if notice.Err != nil {
		e = e.Err(notice.Err)
		if hint := fault.HintOf(notice.Err); hint != "" {
			e = e.Str("hint", hint)
		}
	}
	e.Msg(notice.Event)
}

// A countedEngine is the engine with refused starts in the log and the metrics.
type countedEngine struct {
	*workloop.Engine
	logger zerolog.Logger
	counts *workCounts
}

// Start starts a run.
func (e countedEngine) Start(ctx context.Context, r workloop.StartRequest) (workloop.Started, error) {
	started, err := e.Engine.Start(ctx, r)
	if err == nil {
		return started, nil
	}
	refused, ok := errors.AsType[*loop.Refusal](err)
	if !ok {
		refused = &loop.Refusal{Code: loop.CodeInternal}
	}
	e.counts.refused.WithLabelValues(refused.Code).Inc()
	event := eventStartRefused
	if refused.Code == workloop.CodeAdmission {
		event = eventAdmission
	}
	line := e.logger.Warn().Str("principal", r.Principal).Str("code", refused.Code)
	for _, figure := range []string{"admission_capacity", "admission_available"} {
		if n, ok := refused.Extra[figure]; ok {
			line = line.Any(figure, n)
		}
	}
	line.Msg(event)
	return started, err
}
