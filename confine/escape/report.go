package escape

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"playground/confine"
)

// A Report is what came of the whole suite on a running instance.
type Report struct {
	Object  string   `json:"object"` // escape_report
	OK      bool     `json:"ok"`     // every attempt was made, and every one failed as it must
	Shape   string   `json:"shape"`
	Rows    []Row    `json:"rows"`
	Missing []string `json:"missing"` // what was not tried, or is not told
	Threads []string `json:"threads"` // of the runs that it took
}

// summary is what a run of the suite says in the end.
const summary = "%d attempts to escape, %d did not fail as they must"

// Summary is the last word of a worker that made all attempts.
func Summary(made, red int) string { return fmt.Sprintf(summary, made, red) }

// readSummary reads how many attempts were made from a text that begins with a Summary.
func readSummary(text string) (made int, ok bool) {
	var red int
	n, err := fmt.Sscanf(text, summary, &made, &red)
	return made, err == nil && n == 2 && made > 0
}

// Missing says what rows should be there and are not: each attempt that the worker says it made, at least one of each layer, and at
// least one that names each target of the plan. said is the worker's summary, from the run's outcome.
func Missing(p Plan, rows []Row, said string) []string {
	missing := []string{}
	lack := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	made, ok := readSummary(said)
	if !ok {
		lack("the end: the worker did not say that it made all attempts")
	}
	for number := 1; number <= max(made, len(rows)); number++ {
		if number > made || number > len(rows) || rows[number-1].Row != number {
			lack("row %d: %d attempts were made, %d rows are there", number, made, len(rows))
			break // the rest is out of step
		}
	}
	for _, layer := range append(confine.Layers(), Doors) {
		// The image is what the daemon opened: nothing inside the worker can try it.
		if layer != confine.Image && !slices.ContainsFunc(rows, func(r Row) bool { return r.Layer == layer }) {
			lack("layer %s", layer)
		}
	}
	for _, target := range p.targets() {
		if !slices.ContainsFunc(rows, func(r Row) bool { return strings.Contains(r.Name+" ", target+" ") }) {
			lack("target %s", target)
		}
	}
	return missing
}

// targets are the words by which the rows name what the plan reaches for.
func (p Plan) targets() []string {
	all := slices.Concat(p.Files, p.Folders, p.Programs, p.Sockets)
	for _, pid := range p.Processes {
		all = append(all, "process "+strconv.Itoa(pid))
	}
	for _, port := range p.Ports {
		all = append(all, "127.0.0.1:"+strconv.Itoa(port))
	}
	if p.Other != "" {
		all = append(all, p.Other)
	}
	if p.Ended != "" {
		all = append(all, "with the credential of an ended run:")
	}
	return all
}
