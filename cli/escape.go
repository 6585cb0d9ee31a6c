package cli

import (
	"context"
	"fmt"
	"strconv"

	"playground/confine"
	"playground/confine/escape"
	"playground/workapi"
)

// Escape runs the escape suite and prints a row for each attempt. The status is 1 when one did not fail as it must, or is missing.
func (e *Env) Escape(ctx context.Context) error {
	return e.works(func(client *workapi.Client) error {
		if !e.JSON {
			fmt.Fprintln(e.Stderr, "workers try to get out; this takes some seconds")
		}
		report, err := client.Escape(ctx)
		if err != nil {
			return err
		}
		if err := printList(e, report, report.Rows, func() error { return e.showEscape(report) }); err != nil {
			return err
		}
		if e.Stream {
			e.lack(report) // the lines are of rows that are there
		}
		if !report.OK {
			return StatusError(1)
		}
		return nil
	})
}

// showEscape prints the rows as a table, what is wrong again, and how many there are of each layer.
func (e *Env) showEscape(report escape.Report) error {
	var rows [][]string
	var seen []escape.Row // as they may be shown: a worker wrote them
	red := 0
	for _, r := range report.Rows {
		word := "ok"
		if !r.Pass {
			word = "RED"
			red++
		}
		r.Shape, r.Layer, r.Name = safe(r.Shape), confine.Layer(safe(string(r.Layer))), safe(r.Name)
		r.Expect, r.Errno = safe(or(r.Expect, "nothing")), safe(or(r.Errno, "nothing"))
		rows = append(rows, []string{strconv.Itoa(r.Row), string(r.Layer), r.Name, r.Expect, r.Errno, word})
		seen = append(seen, r)
	}
	if err := table(e.Stdout, []string{"ROW", "LAYER", "ATTEMPT", "EXPECTED", "GOT", ""}, rows); err != nil {
		return err
	}
	fmt.Fprintln(e.Stdout)
	if err := escape.Write(e.Stdout, seen); err != nil {
		return err
	}
	e.lack(report)
	_, err := fmt.Fprintf(e.Stdout, "%s: %d attempts, %d red, %d missing\n", safe(report.Shape), len(report.Rows), red, len(report.Missing))
	return err
}

// lack says what is missing.
func (e *Env) lack(report escape.Report) {
	for _, what := range report.Missing {
		fmt.Fprintf(e.Stderr, "missing: %s\n", safe(what))
	}
}
