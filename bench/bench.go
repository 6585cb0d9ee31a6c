// Package bench is "playground bench": it starts the suite in a temporary folder and measures it as its users meet it. A
// command's round trip over MCP is timed beside the same shell started by a bare Go program and beside bwrap(1) with the
// same namespaces; a job's output through its ring; the way through the gateway beside the direct one and nginx; records, verdicts
// and runs of the work loop; and the memory of all processes.
//
// Everything in a report comes from one run, and what is compared is measured in turns: each round takes a slice of every
// row, so that a machine that grows busier or slower meanwhile does so for all of them. Ratios are taken inside a round.
package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"playground/fault"
	"playground/version"
)

// Options say how long to measure and where.
type Options struct {
	Bin    string        // the folder that holds the daemons
	State  string        // a folder that does not exist yet; empty = one below the temporary folder. It is removed at the end
	Rounds int           // how often each row takes its turn
	Time   time.Duration // what all rounds take together; the gateway takes a third more, the work loop half, memory and output some 30 s
	Say    func(string)  // takes one line of news
}

// The values of a run that says nothing.
const (
	DefaultRounds = 8
	DefaultTime   = 48 * time.Second
)

// A Report is what one run measured.
type Report struct {
	Version   string      `json:"version"`
	Started   time.Time   `json:"started"`
	Seconds   float64     `json:"seconds"`
	Machine   Machine     `json:"machine"`
	Isolation string      `json:"isolation"`
	Rounds    int         `json:"rounds"`
	Exec      []Row       `json:"exec"`
	Skipped   []string    `json:"skipped,omitempty"` // what could not be measured here, and why
	Output    Output      `json:"output"`
	Memory    []Footprint `json:"memory"`
	Gateway   Gateway     `json:"gateway"`
	Work      Work        `json:"work"`
	Aims      []Aim       `json:"aims"`
}

// A Machine is what the numbers depend on.
type Machine struct {
	OS        string     `json:"os"`
	Kernel    string     `json:"kernel"`
	CPU       string     `json:"cpu"`
	Cores     int        `json:"cores"`
	LoadStart [3]float64 `json:"load_average_start"` // over 1, 5 and 15 minutes
	LoadEnd   [3]float64 `json:"load_average_end"`
}

// An Aim is a figure that was promised.
type Aim struct {
	Name  string  `json:"name"`
	Want  string  `json:"want"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Met   bool    `json:"met"`
}

// Run measures. It leaves nothing behind, whatever happens.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Rounds < 1 || o.Time <= 0 {
		return nil, fault.New(fault.Invalid, "cannot measure %d rounds in %v", o.Rounds, o.Time)
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	began := time.Now()
	report := &Report{Version: version.String(), Started: began.Truncate(time.Second), Rounds: o.Rounds}
	report.Machine = Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Kernel: kernel(), CPU: cpu(), Cores: runtime.NumCPU(), LoadStart: loadAverage()}
	s, err := startStage(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	switch err = report.measure(ctx, s, o); {
	case ctx.Err() != nil:
		err = ctx.Err() // whatever was hit by it
	case err != nil:
		o.Say("the daemons' logs end so:\n" + s.logs())
	}
	if err := errors.Join(err, s.stop()); err != nil {
		return nil, err
	}
	if report.Gateway, err = measureGateway(ctx, o); err != nil {
		return nil, err
	}
	if report.Work, err = measureWork(ctx, o); err != nil {
		return nil, err
	}
	report.Machine.LoadEnd = loadAverage()
	report.Seconds = time.Since(began).Seconds()
	report.Aims = report.aims()
	return report, nil
}

// measure fills the report. Memory comes first, because the daemons keep for a while what a load made them take.
func (r *Report) measure(ctx context.Context, s *stage, o Options) error {
	r.Isolation = string(s.suite.Config.Sandbox.Isolation)
	o.Say("memory, idle")
	if err := r.footprint(ctx, "idle, no tenant"); err != nil {
		return err
	}
	agents, err := s.agents(ctx)
	if err != nil {
		return err
	}
	defer agents.close()
	if err := r.footprint(ctx, fmt.Sprintf("idle, %d open tenants", len(agents))); err != nil {
		return err
	}
	o.Say("memory, 32 jobs")
	if err := r.busy(ctx, agents); err != nil {
		return err
	}
	if r.Exec, r.Skipped, err = measureExec(ctx, agents, o); err != nil {
		return err
	}
	o.Say("job output")
	if r.Output, err = measureOutput(ctx, agents[0]); err != nil {
		return err
	}
	return r.footprint(ctx, "idle, after all that (the output of 4 jobs is kept)")
}

// busy takes the footprint with as many jobs as a host runs at once, and ends them.
func (r *Report) busy(ctx context.Context, agents agents) error {
	jobs, err := agents.startJobs(ctx, 32, "exec sleep 600")
	if err != nil {
		return err
	}
	if err := r.footprint(ctx, "32 jobs running"); err != nil {
		return err
	}
	return agents.endJobs(ctx, jobs)
}

// What was promised of the suite.
const (
	wantOutput = 300.0 // MB/s
	wantIdle   = 80.0  // MB
	wantAdded  = 1.3   // times what nginx adds
)

// aims compares the report with what was promised.
func (r *Report) aims() []Aim {
	var aims []Aim
	for _, row := range r.Exec {
		if row.Way != wayModern || row.ToBwrap == nil {
			continue
		}
		aims = append(aims, Aim{Name: fmt.Sprintf("exec over MCP, %d at once, to bwrap", row.AtOnce), Want: "p50 at most 1.00 of bwrap's",
			Value: row.ToBwrap.Median, Unit: "times", Met: row.ToBwrap.Median <= 1})
	}
	aims = append(aims, Aim{Name: "job output", Want: fmt.Sprintf("at least %.0f MB/s", wantOutput),
		Value: r.Output.Rate, Unit: "MB/s", Met: r.Output.Rate >= wantOutput})
	if len(r.Memory) > 0 {
		idle := r.Memory[0]
		aims = append(aims, Aim{Name: "memory, idle, no tenant", Want: fmt.Sprintf("under %.0f MB", wantIdle),
			Value: idle.Total, Unit: "MB", Met: idle.Total < wantIdle})
	}
	for _, row := range r.Gateway.Rows {
		if row.ToNginx != nil && row.AtOnce == 1 {
			aims = append(aims, Aim{Name: "gateway's added latency, to nginx's", Want: fmt.Sprintf("p50 at most %.2f times", wantAdded),
				Value: row.ToNginx.Median, Unit: "times", Met: row.ToNginx.Median <= wantAdded})
		}
	}
	return append(aims, r.Work.aims()...)
}
