package job

import (
	"fmt"
	"time"
	"unicode/utf8"

	"playground/fault"
)

// Limits bound what a Manager admits and keeps.
type Limits struct {
	ActivePerTenant int // running commands of one tenant, synchronous ones included
	ActivePerHost   int // running commands of all tenants
	// Handles of jobs, running and ended ones together. A job is admitted only if its handle has a place, so that an
	// ended job never has to push out another one that nobody has read.
	RetainedPerTenant int
	RetainedPerHost   int

	RingBytes    int // output kept of one job
	RingChunks   int // pieces it may be in
	PageBytes    int // output in one page
	CommandBytes int // command text and arguments together
	StdinBytes   int // input of one command, which bounds the files that are written

	TTL         time.Duration // how long an ended job's handle is kept
	ExecDefault time.Duration // time of a synchronous command that asks for none
	ExecMax     time.Duration // the most that it may ask for
	JobMax      time.Duration // time of a job that asks for none, and the most that it may ask for
	WaitMax     time.Duration // the longest wait of one poll; longer ones are cut to it
}

// DefaultLimits returns the limits of a host that configures none.
func DefaultLimits() Limits {
	return Limits{
		ActivePerTenant:   8,
		ActivePerHost:     32,
		RetainedPerTenant: 8,
		RetainedPerHost:   64,

		RingBytes:    4 << 20,
		RingChunks:   1024,
		PageBytes:    256 << 10,
		CommandBytes: 64 << 10,
		StdinBytes:   3 << 20,

		TTL:         time.Hour,
		ExecDefault: 45 * time.Second,
		ExecMax:     280 * time.Second,
		JobMax:      24 * time.Hour,
		WaitMax:     25 * time.Second,
	}
}

// Validate returns a fault.Invalid error for the first limit that no Manager can work with.
func (l Limits) Validate() error {
	counts := []struct {
		name       string
		value, min int
	}{
		{"active_per_tenant", l.ActivePerTenant, 1},
		{"active_per_host", l.ActivePerHost, 1},
		{"retained_per_tenant", l.RetainedPerTenant, 1},
		{"retained_per_host", l.RetainedPerHost, 1},
		{"ring_bytes", l.RingBytes, utf8.UTFMax}, // the least a ring takes
		{"ring_chunks", l.RingChunks, 1},
		{"page_bytes", l.PageBytes, utf8.UTFMax},
		{"command_bytes", l.CommandBytes, 1},
		{"stdin_bytes", l.StdinBytes, 1},
	}
	for _, c := range counts {
		if c.value < c.min {
			return fault.New(fault.Invalid, "%s is %d, and must be at least %d", c.name, c.value, c.min)
		}
	}
	times := []struct {
		name  string
		value time.Duration
	}{
		{"ttl", l.TTL},
		{"exec_default", l.ExecDefault},
		{"exec_max", l.ExecMax},
		{"job_max", l.JobMax},
		{"wait_max", l.WaitMax},
	}
	for _, t := range times {
		if t.value <= 0 {
			return fault.New(fault.Invalid, "%s is %v, and must be more than 0", t.name, t.value)
		}
	}
	if l.ExecDefault > l.ExecMax {
		return fault.New(fault.Invalid, "exec_default is %v, more than exec_max, which is %v", l.ExecDefault, l.ExecMax)
	}
	return nil
}

// captureBytes is the most of each stream that a synchronous command may ask to have kept. It leaves room for a read
// that wants to see one byte more than a file may have.
func (l Limits) captureBytes() int { return max(l.RingBytes, l.StdinBytes) + 4<<10 }

// timeout returns the time of a command that asked for asked.
func timeout(asked, byDefault, most time.Duration, hint string) (time.Duration, error) {
	switch {
	case asked == 0:
		return byDefault, nil
	case asked < 0:
		return 0, fault.New(fault.Invalid, "timeout %v is negative", asked)
	case asked > most:
		return 0, fault.New(fault.Invalid, "timeout %s is over the limit of %s", span(asked), span(most)).WithHint("%s", hint)
	}
	return asked, nil
}

// span is a time as a person writes it: "1h", where Duration's own text is "1h0m0s".
func span(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
