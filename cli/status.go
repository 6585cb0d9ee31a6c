package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"playground/faculty"
	"playground/fault"
	"playground/localapi/userapi"
)

// Status prints the daemons, and how many tenants and jobs there are. A suite that does not work is told and ends with
// status 1.
func (e *Env) Status(ctx context.Context) error {
	return e.users(func(client *userapi.Client) error {
		status, err := client.Status(ctx)
		if err != nil {
			return err
		}
		workers, some := e.facultyStatus(ctx)
		summary := ""
		if some {
			summary = workers.summary
			status.Daemons = append(status.Daemons, workers.daemon)
		}
		switch {
		case e.JSON && some:
			err = e.printJSON(struct {
				userapi.Status
				Faculty faculty.Listing `json:"faculty"`
			}{status, workers.listing})
		case e.JSON:
			err = e.printJSON(status)
		default:
			err = e.showStatus(status, summary)
		}
		return errors.Join(err, userapi.Healthy(status))
	})
}

// facultyStatus is how the faculty workers are; false where the host has none to keep.
func (e *Env) facultyStatus(ctx context.Context) (facultyState, bool) {
	c, err := e.load()
	if err != nil || c.Faculty.Definitions == "" {
		return facultyState{}, false
	}
	return facultyStateOf(ctx, c), true
}

// showStatus prints it; workers is "" where the host has no faculty workers.
func (e *Env) showStatus(s userapi.Status, workers string) error {
	var rows [][]string
	for _, d := range s.Daemons {
		pid, since := "-", "-"
		if d.State == userapi.Up {
			pid, since = strconv.Itoa(d.Pid), (time.Duration(d.UptimeS) * time.Second).String()
		}
		rows = append(rows, []string{d.Name, d.State, pid, since})
	}
	if err := table(e.Stdout, []string{"DAEMON", "STATE", "PID", "UP FOR"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(e.Stdout)
	lines := [][2]string{{"version", s.Version}, {"isolation", s.Isolation}, {"tenants", strconv.Itoa(s.Tenants)},
		{"running commands", strconv.Itoa(s.ActiveJobs)}, {"kept jobs", strconv.Itoa(s.RetainedJobs)}}
	if workers != "" {
		lines = append(lines, [2]string{"faculty workers", workers})
	}
	if s.Lost != nil {
		lines = append(lines, [2]string{"PROOF LOST", fmt.Sprintf("since %s, tenant %s", when(s.Lost.Since), s.Lost.Tenant)})
		for _, left := range s.Lost.Pids {
			if left.Pid < 0 {
				lines = append(lines, [2]string{"  left jail", strconv.Itoa(-left.Pid)})
				continue
			}
			lines = append(lines, [2]string{"  left process", strconv.Itoa(left.Pid)})
		}
	}
	if s.UsageError != "" {
		lines = append(lines, [2]string{"use of resources", "unknown: " + s.UsageError})
	}
	if err := pairs(e.Stdout, lines); err != nil || len(s.Usage) == 0 {
		return err
	}
	fmt.Fprintln(e.Stdout)
	return showUsage(e.Stdout, s.Usage)
}

// showUsage prints what each tenant's commands use together. The names of resources are those of rctl(8); what the kernel did
// not count is left open.
func showUsage(w io.Writer, usage map[string]map[string]int64) error {
	resources := []struct {
		name string
		show func(int64) string
	}{{"maxproc", decimal}, {"nthr", decimal}, {"openfiles", decimal}, {"memoryuse", mebibytes}, {"swapuse", mebibytes}, {"pcpu", percent}}
	var rows [][]string
	for _, tenant := range slices.Sorted(maps.Keys(usage)) {
		row := []string{tenant}
		for _, r := range resources {
			cell := "-"
			if n, ok := usage[tenant][r.name]; ok {
				cell = r.show(n)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return table(w, []string{"TENANT", "PROCESSES", "THREADS", "FILES", "MEMORY", "SWAP", "CPU"}, rows)
}

func decimal(n int64) string   { return strconv.FormatInt(n, 10) }
func percent(n int64) string   { return fmt.Sprintf("%d%%", n) }
func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// readyPeriod is how often Ready asks.
const readyPeriod = 200 * time.Millisecond

// Ready waits until the suite can serve tenants, at most timeout; 0 asks once. A suite that is only just being started for
// the first time has no configuration yet, so that is waited for too.
func (e *Env) Ready(ctx context.Context, timeout time.Duration) error {
	if timeout < 0 {
		return &UsageError{fmt.Errorf("a timeout of %v makes no sense", timeout)}
	}
	began := time.Now()
	for {
		err := e.users(func(client *userapi.Client) error { return client.Health(ctx) })
		if err == nil {
			if e.JSON {
				return e.printJSON(userapi.Health{Status: "ok"})
			}
			_, err = fmt.Fprintln(e.Stdout, "ready")
			return err
		}
		// Lost proof does not mend itself, and waiting would hide it.
		if errors.Is(err, fault.ProofLost) || errors.Is(err, fault.Denied) || time.Since(began) >= timeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(readyPeriod):
		}
	}
}
