package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"playground/workapi"
	"playground/workloop"
)

// RunsList prints runs, the newest first.
func (e *Env) RunsList(ctx context.Context, f workapi.RunFilter) error {
	return e.works(func(client *workapi.Client) error {
		list, err := client.Runs(ctx, f)
		if err != nil {
			return err
		}
		return printList(e, list, list.Data, func() error {
			if len(list.Data) == 0 {
				_, err := fmt.Fprintln(e.Stderr, `no runs; start one: playground run "GOAL"`)
				return err
			}
			var rows [][]string
			for _, r := range list.Data {
				rows = append(rows, []string{safe(r.Thread), stateOf(r), safe(r.Principal), strconv.Itoa(r.Turns), usd(r.SpentUSD), when(time.Unix(r.StartedAt, 0)), short(flat(r.Goal), 50)})
			}
			return table(e.Stdout, []string{"THREAD", "STATE", "FOR", "TURNS", "SPENT", "STARTED", "GOAL"}, rows)
		})
	})
}

// stateOf is a run's state and, where it says more, its outcome.
func stateOf(r workloop.Row) string {
	if outcome := deref(r.Outcome); outcome != "" && r.State == workloop.StoppedShort {
		return r.State + " (" + safe(outcome) + ")"
	}
	return r.State
}

// RunsShow prints a run's row.
func (e *Env) RunsShow(ctx context.Context, thread string) error {
	return e.works(func(client *workapi.Client) error {
		row, err := client.Run(ctx, thread)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(row)
		}
		return pairs(e.Stdout, describeRun(row))
	})
}

// describeRun is a run's row for a person.
func describeRun(r workloop.Row) [][2]string {
	turns, ceiling, ended := strconv.Itoa(r.Turns), usd(r.SpentUSD), "-"
	if r.MaxTurns != nil {
		turns += " of " + strconv.Itoa(*r.MaxTurns)
	}
	if r.BudgetUSD != nil {
		ceiling += " of " + usd(*r.BudgetUSD)
	}
	if r.EndedAt != nil {
		ended = when(time.Unix(*r.EndedAt, 0))
	}
	all := [][2]string{{"thread", safe(r.Thread)}, {"state", stateOf(r)}, {"goal", short(flat(r.Goal), 200)}, {"for", safe(r.Principal) + " (" + safe(r.Tier) + ")"},
		{"as", safe(r.Actor)}, {"transport", safe(r.Transport)}, {"model", safe(r.Model)}, {"turns", turns}, {"spent", ceiling},
		{"tool calls", fmt.Sprintf("%d ok, %d failed", r.ToolCallsOK, r.ToolCallsFailed)}, {"tools", or(safe(strings.Join(r.Tools, ", ")), "-")}, {"narrowed", or(safe(strings.Join(r.Narrowed, ", ")), "-")},
		{"started", when(time.Unix(r.StartedAt, 0))}, {"ended", ended}}
	if r.Ask != nil {
		all = append(all, [2]string{"asks", short(flat(r.Ask.Question), 200)}, [2]string{"question", safe(r.Ask.RequestID)})
	}
	for i, line := range lines(deref(r.Summary)) {
		name := "summary"
		if i > 0 {
			name = ""
		}
		all = append(all, [2]string{name, line})
	}
	if r.Hint != "" {
		all = append(all, [2]string{"hint", safe(flat(r.Hint))})
	}
	return all
}

// RunsStop asks a run to stop at its next step.
func (e *Env) RunsStop(ctx context.Context, thread string) error {
	return e.tell(ctx, thread, workloop.Event{Type: workloop.EventStop}, "the run stops at its next step")
}

// RunsSay passes a message on to a run.
func (e *Env) RunsSay(ctx context.Context, thread, text string) error {
	return e.tell(ctx, thread, workloop.Event{Type: workloop.EventMessage, Text: text}, "the model sees the message in its next turn")
}

func (e *Env) tell(ctx context.Context, thread string, event workloop.Event, said string) error {
	return e.works(func(client *workapi.Client) error {
		ack, err := client.Tell(ctx, thread, event)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(ack)
		}
		_, err = fmt.Fprintln(e.Stdout, said)
		return err
	})
}

// DecisionsList prints the questions that wait for an answer, the oldest first.
func (e *Env) DecisionsList(ctx context.Context) error {
	return e.works(func(client *workapi.Client) error {
		list, err := client.Decisions(ctx)
		if err != nil {
			return err
		}
		return printList(e, list, list.Data, func() error {
			if len(list.Data) == 0 {
				_, err := fmt.Fprintln(e.Stderr, "no run waits for an answer")
				return err
			}
			for _, d := range list.Data {
				all := [][2]string{{"question", safe(d.RequestID)}, {"run", safe(d.Thread)}, {"for", safe(d.Principal)}, {"asked", when(time.Unix(d.AskedAt, 0))}, {"asks", safe(flat(d.Question))}}
				for i, option := range d.Options {
					all = append(all, [2]string{"option " + strconv.Itoa(i+1), safe(flat(option))})
				}
				if err := pairs(e.Stdout, all); err != nil {
					return err
				}
				fmt.Fprintln(e.Stdout)
			}
			return nil
		})
	})
}

// Decide answers a question. A value that is not JSON is taken as a text.
func (e *Env) Decide(ctx context.Context, request, decision, reason, value string) error {
	answer := workapi.Answer{Decision: decision, Reason: reason}
	if value != "" {
		answer.Value = json.RawMessage(value)
		if !json.Valid(answer.Value) {
			answer.Value, _ = json.Marshal(value) // a string always marshals
		}
	}
	return e.works(func(client *workapi.Client) error {
		made, err := client.Decide(ctx, request, answer)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(made)
		}
		_, err = fmt.Fprintf(e.Stdout, "answered: %s\nthe run goes on: playground runs tail %s\n", safe(made.Decision), safe(made.Thread))
		return err
	})
}
