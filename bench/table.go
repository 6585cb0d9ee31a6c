package bench

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A table is rows of cells: the first is set to the left, all others to the right.
type table [][]string

func (t *table) row(cells ...string) { *t = append(*t, cells) }

// text sets the table with a first column of the given width.
func (t table) text(first int) string {
	widths := []int{first}
	for _, row := range t {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t {
		line := ""
		for i, cell := range row {
			if i == 0 {
				line = fmt.Sprintf("%-*s", widths[0], cell)
			} else {
				line += fmt.Sprintf("  %*s", widths[i], cell)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// firstColumn is wide enough for every row's words, so that the parts of the report stand in line.
const firstColumn = 53

// WriteTable writes the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	var text string
	for _, part := range []func(*table){r.execRows, r.outputRows, r.gatewayRows, r.recordRows, r.runRows, r.memoryRows} {
		var t table
		part(&t)
		text += t.text(firstColumn) + "\n"
	}
	if _, err := io.WriteString(w, text+r.footnotes()); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}

func (r *Report) execRows(t *table) {
	t.row("COMMAND true", "at once", "p50 ms", "p99 ms", "calls/s", "p50/floor", "p50/bwrap", "in rounds")
	load := 0
	for _, row := range r.Exec {
		if load != 0 && load != row.AtOnce {
			t.row()
		}
		load = row.AtOnce
		words := row.Words
		if row.Tenants > 1 {
			words += fmt.Sprintf(", %d tenants", row.Tenants)
		}
		floor, _ := row.ToFloor.words()
		bwrap, spread := row.ToBwrap.words()
		t.row(words, fmt.Sprint(row.AtOnce), number(row.P50), number(row.P99), fmt.Sprintf("%.0f", row.Rate), floor, bwrap, spread)
	}
}

func (r *Report) outputRows(t *table) {
	polled := r.Output.Polled
	t.row("JOB OUTPUT", "MB/s")
	t.row("1 GiB of zeros, looked at 4 times a second", fmt.Sprintf("%.0f", r.Output.Rate))
	t.row("1 GiB of text, polled without pause", fmt.Sprintf("%.0f", polled.Rate))
	t.row(fmt.Sprintf("  its poller gets, in %.0f pages a second", polled.Pages), fmt.Sprintf("%.0f", polled.Received))
}

// gatewayRows shows what a request to a worker takes by each way, and what is more than directly.
func (r *Report) gatewayRows(t *table) {
	t.row("WORKER tools/list", "at once", "p50 ms", "p99 ms", "calls/s", "added p50", "added p99", "to nginx", "in rounds")
	for _, row := range r.Gateway.Rows {
		added50, added99 := "", ""
		if row.Way != wayDirect {
			added50, added99 = number(row.Added50), number(row.Added99)
		}
		nginx, spread := row.ToNginx.words()
		t.row(row.Words, fmt.Sprint(row.AtOnce), number(row.P50), number(row.P99), fmt.Sprintf("%.0f", row.Rate), added50, added99, nginx, spread)
	}
	if r.Gateway.StreamMemory > 0 {
		t.row("playgroundd's memory for 100 open streams, MB", "", number(r.Gateway.StreamMemory))
	}
}

// recordRows shows what the log and the judge take, beside the least that it could be.
func (r *Report) recordRows(t *table) {
	t.row("RECORDS", "at once", "p50 ms", "p99 ms", "per s", "p50/floor", "in rounds")
	workRowsOf(t, r.Work.Append, true)
	t.row()
	workRowsOf(t, r.Work.Verdicts, false) // how many there were in a second says nothing: each needs a result between
}

// runRows shows what runs take.
func (r *Report) runRows(t *table) {
	t.row("RUNS", "at once", "p50 ms", "p99 ms", "per s", "p50/in process", "in rounds")
	workRowsOf(t, r.Work.Runs, true)
	if w := r.Work.Worker; w.Workers > 0 {
		t.row("a worker's memory while its model thinks, MB", "workers", "RSS", "PSS", "it adds")
		t.row("", fmt.Sprint(w.Workers), number(w.Resident), number(w.Part), number(w.Added))
	}
}

func workRowsOf(t *table, rows []WorkRow, rates bool) {
	load := 0
	for _, row := range rows {
		if load != 0 && load != row.AtOnce {
			t.row()
		}
		load = row.AtOnce
		rate := ""
		if rates {
			rate = fmt.Sprintf("%.0f", row.Rate)
		}
		base, spread := row.ToBase.words()
		t.row(row.Words, fmt.Sprint(row.AtOnce), number(row.P50), number(row.P99), rate, base, spread)
	}
}

// memoryRows shows the sum of all processes, then the resident size of each daemon.
func (r *Report) memoryRows(t *table) {
	if len(r.Memory) == 0 {
		t.row("MEMORY: not measured on this platform")
		return
	}
	header := []string{"MEMORY, MB", "all", "processes"}
	for _, daemon := range r.Memory[0].Daemons {
		header = append(header, strings.TrimPrefix(daemon.Name, "playground-"))
	}
	t.row(append(header, "the rest")...)
	for _, f := range r.Memory {
		cells := []string{f.When, fmt.Sprintf("%.1f", f.Total), fmt.Sprint(f.Processes)}
		for _, daemon := range f.Daemons {
			cells = append(cells, fmt.Sprintf("%.1f", daemon.Resident))
		}
		t.row(append(cells, fmt.Sprintf("%.1f", f.Rest))...)
	}
}

// footnotes says what the numbers depend on and mean, and which aims they meet.
func (r *Report) footnotes() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "playground %s on %s: %s, %d cores, %s; load average %.2f before, %.2f after\n", r.Version, m.OS, m.CPU, m.Cores, m.Kernel, m.LoadStart[0], m.LoadEnd[0])
	fmt.Fprintf(&b, "isolation %s; %d rounds; %.0f s in all\n", r.Isolation, r.Rounds, r.Seconds)
	if m.LoadStart[0] > 0.5 {
		b.WriteString("This machine was busy before: trust the ratios, which are taken in turns, more than the times.\n")
	}
	b.WriteString(`MCP is the official Go client over loopback HTTP, and its own work is in the numbers. A ratio is the median of the rounds'
ratios, beside their extremes. The floor reads the host's /etc/profile, bwrap none, a tenant's shell its sandbox's.
The log and the judge of the rows RECORDS run in this program, on the disk of the state folder; all else is asked of the daemons.
A verdict's row holds the call's and the verdict's records; what it adds to a call that is recorded anyway is what is above the floor.
`)
	if len(r.Memory) > 0 {
		b.WriteString("Memory of all processes and of the rest (holders, inits, jobs) is PSS: shared pages are divided. That of a daemon is RSS.\n")
		if r.Memory[0].Shared {
			b.WriteString("This user may not see how the daemons share pages, so their part of the sum is RSS, too: run it as root for the true sum.\n")
		}
	}
	for _, text := range append(r.Skipped, r.Gateway.Skipped...) {
		fmt.Fprintf(&b, "not measured: %s\n", text)
	}
	b.WriteString("\n")
	for _, aim := range r.Aims {
		verdict := "met   "
		if !aim.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(&b, "%s  %s: %s %s (aim: %s)\n", verdict, aim.Name, number(aim.Value), aim.Unit, aim.Want)
	}
	return b.String()
}

// words shows a ratio and its spread.
func (r *Ratio) words() (median, spread string) {
	if r == nil {
		return "", ""
	}
	return fmt.Sprintf("%.2f", r.Median), fmt.Sprintf("%.2f-%.2f", r.Low, r.High)
}

// number shows three digits or so.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
