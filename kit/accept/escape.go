package main

import (
	"context"
	"fmt"
)

// An escapeRow is one attempt to get out of a worker, as "playground escape" shows it.
type escapeRow struct {
	Shape   string
	Row     int
	Layer   string
	Attempt string
	Expect  string
	Errno   string
	Pass    bool
}

// leastRows is how many attempts the suite makes at least: fewer mean that some were never made.
const leastRows = 60

// escape runs the escape suite and reports each of its rows.
func (w *world) escape(ctx context.Context) error {
	// A run of somebody else, whose thread the workers reach for.
	if err := w.operator(ctx, nil, "run", goalNote, "--timeout", w.limit(runEnd).String()); err != nil {
		return err
	}
	var result struct {
		OK      bool
		Shape   string
		Rows    []escapeRow
		Missing []string
	}
	err := w.operator(ctx, &result, "escape")
	layers := map[string]bool{}
	for _, r := range result.Rows {
		layers[r.Layer] = true
		w.report.check(r.Pass, fmt.Sprintf("escape %s %d %s: %s", r.Shape, r.Row, r.Layer, r.Attempt), r.Expect, "%s", r.Errno)
	}
	w.report.check(err == nil && result.OK, "escape: playground escape", "exit 0: all rows are green and none is missing", "ok %v, missing %q, %v", result.OK, result.Missing, err)
	w.report.check(len(result.Rows) >= leastRows, "escape: all attempts were made", fmt.Sprintf("%d or more", leastRows), "%d in %d layers", len(result.Rows), len(layers))
	left := w.host.left(w.limit(jobEnd / 2))
	w.report.check(left == "", "escape: nothing of the workers is left", "no process, jail or rctl rule", "%s", left)
	return nil
}
