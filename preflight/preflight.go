// Package preflight checks whether a host can do what Playground promises, and says what to change when it cannot. The
// same checks run at a daemon's start and in `playground doctor`. Facts are gathered per platform; what they mean is
// judged by pure functions. A check that could not be made is a warning and never a pass.
package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"playground/fault"
)

// A Status is a check's result.
type Status string

// The results, from good to bad.
const (
	Pass Status = "pass"
	Warn Status = "warn" // it works, but less than it should; or it could not be checked
	Fail Status = "fail" // the daemons refuse to start
)

// rank orders results.
func (s Status) rank() int {
	switch s {
	case Pass:
		return 0
	case Warn:
		return 1
	}
	return 2
}

// A Check is one finding.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`           // what was found
	Remedy string `json:"remedy,omitempty"` // the command or change that mends it
}

// A Report is all findings, in the order they were made.
type Report struct{ Checks []Check }

// Options says what the host is to be used for.
type Options struct {
	StateDir  string // need not exist yet
	RunDir    string // need not exist yet
	Isolation string // "jail", "namespaces" or "none"

	// FreeBSD only.
	DaemonUser     string // whom playgroundd runs as
	SecurelevelMin int    // below it, the check fails
	Storage        string // "dir" or "zfs"; empty is "dir"
	Dataset        string // storage zfs: below which ours are made
	Quota          int64  // storage zfs: bytes that a sandbox may hold; 0 = no bound
	DevfsRuleset   int    // of the jails' /dev; 0 is the one that playground-jaild makes
}

// isolationNone is jail.IsolationNone; this package stands below jail.
const isolationNone = "none"

// Run makes this platform's checks. It takes well below a second, starts a few children and leaves nothing behind; a pool that
// does not answer holds it up for twelve seconds.
// Where the daemon makes itself undumpable, run it before: the attribute makes the probe of user namespaces fail.
func Run(ctx context.Context, o Options) Report {
	return Report{Checks: platform(ctx, o)}
}

// Sandboxes makes only those checks that say whether this platform's sandboxes can be made at all. It is for the daemon that
// makes them: quick, and without a probe in the state folder. Of Run's remark about undumpable processes the same is true.
func Sandboxes(ctx context.Context, o Options) Report {
	return Report{Checks: platformSandboxes(ctx, o)}
}

// Worst returns the worst result; an empty report passes nothing.
func (r Report) Worst() Status {
	if len(r.Checks) == 0 {
		return Fail
	}
	worst := Pass
	for _, c := range r.Checks {
		if c.Status.rank() > worst.rank() {
			worst = c.Status
		}
	}
	return worst
}

// ExitCode returns 0, 1 or 2 for pass, warn and fail.
func (r Report) ExitCode() int { return r.Worst().rank() }

// Failed returns the checks that failed.
func (r Report) Failed() []Check {
	var failed []Check
	for _, c := range r.Checks {
		if c.Status == Fail {
			failed = append(failed, c)
		}
	}
	return failed
}

// Refusal is the error of checks that failed, nil if none did: what cannot be done, then what is wrong, and as the hint what
// mends it.
func (r Report) Refusal(what string) error {
	failed := r.Failed()
	if len(failed) == 0 {
		return nil
	}
	var text, mend strings.Builder
	for _, check := range failed {
		fmt.Fprintf(&text, "\n  %s: %s", check.Name, check.Detail)
		if check.Remedy == "" {
			continue
		}
		if mend.Len() > 0 {
			mend.WriteString("; then: ")
		}
		mend.WriteString(check.Remedy)
	}
	return fault.New(fault.Unavailable, "%s:%s", what, &text).WithHint("%s", &mend)
}

// WriteFailures writes each failed check, and what mends it.
func (r Report) WriteFailures(w io.Writer) error {
	for _, c := range r.Failed() {
		if _, err := fmt.Fprintf(w, "%s: %s\n  -> %s\n", c.Name, c.Detail, c.Remedy); err != nil {
			return fmt.Errorf("cannot write report: %w", err)
		}
	}
	return nil
}

// MarshalJSON writes {"status": the worst, "checks": [...]}.
func (r Report) MarshalJSON() ([]byte, error) {
	checks := r.Checks
	if checks == nil {
		checks = []Check{}
	}
	return json.Marshal(struct {
		Status Status  `json:"status"`
		Checks []Check `json:"checks"`
	}{r.Worst(), checks})
}

// WriteText writes the report as a table, each remedy below its check.
func (r Report) WriteText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", strings.ToUpper(string(c.Status)), c.Name, c.Detail) // Flush tells errors
		if c.Remedy != "" {
			_, _ = fmt.Fprintf(table, "\t\t-> %s\n", c.Remedy)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("cannot write report: %w", err)
	}
	if _, err := fmt.Fprintf(w, "\nresult: %s\n", r.Worst()); err != nil {
		return fmt.Errorf("cannot write report: %w", err)
	}
	return nil
}

// pass, warn and fail make checks.
func pass(name, format string, args ...any) Check {
	return Check{Name: name, Status: Pass, Detail: fmt.Sprintf(format, args...)}
}

func warn(name, remedy, format string, args ...any) Check {
	return Check{Name: name, Status: Warn, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

func fail(name, remedy, format string, args ...any) Check {
	return Check{Name: name, Status: Fail, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}
