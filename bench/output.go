package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"playground/fault"
)

// An Output is how fast a job's output goes through its ring.
type Output struct {
	Bytes int64 `json:"bytes"` // of one job
	// Rate is what a job writes in MB a second, from its start to its terminal state, while somebody looks at it now and
	// then: the median of several jobs. What the ring cannot hold is dropped, so the reader does not slow the job.
	Rate  float64   `json:"mb_per_second"`
	Rates []float64 `json:"mb_per_second_each"`
	// Polled is the same with lines of text and a client that polls all the time.
	Polled Polled `json:"polled"`
}

// A Polled is what a client that polls without pause sees.
type Polled struct {
	Rate     float64 `json:"mb_per_second"`          // written by the job
	Received float64 `json:"received_mb_per_second"` // got by the client
	Pages    float64 `json:"pages_per_second"`
	Dropped  float64 `json:"dropped_share"`
}

const (
	outputBytes  = 1 << 30
	outputRuns   = 3
	outputPolls  = 250 * time.Millisecond // between the looks of a slow reader
	outputZeros  = "head -c 1073741824 /dev/zero"
	outputText   = "yes 'the quick brown fox jumps over the lazy dog' | head -c 1073741824"
	megabyte     = 1e6
	outputToWait = 25 * time.Second
)

func measureOutput(ctx context.Context, a *agent) (Output, error) {
	out := Output{Bytes: outputBytes}
	for range outputRuns {
		took, err := a.slowReader(ctx)
		if err != nil {
			return out, err
		}
		out.Rates = append(out.Rates, outputBytes/megabyte/took.Seconds())
	}
	sorted := slices.Sorted(slices.Values(out.Rates))
	out.Rate = median(sorted)
	var err error
	out.Polled, err = a.eagerReader(ctx)
	return out, err
}

// slowReader runs a job that writes zeros, looks at it now and then, and returns how long it took until its terminal
// state, by the daemon's clock.
func (a *agent) slowReader(ctx context.Context) (time.Duration, error) {
	id, err := a.startJob(ctx, outputZeros)
	if err != nil {
		return 0, err
	}
	j := handle{a, id}
	for cursor := int64(0); ; {
		p, err := j.poll(ctx, cursor, 0)
		if err != nil {
			return 0, err
		}
		if p.end != nil {
			return complete(p)
		}
		cursor = p.next
		pause := outputPolls
		if p.dropped == 0 && cursor == outputBytes {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// complete checks that a job wrote everything and returns its duration.
func complete(p page) (time.Duration, error) {
	bytes, _ := p.end["stdout_bytes"].(float64)
	took, _ := p.end["duration_ms"].(float64)
	if int64(bytes) != outputBytes || took <= 0 {
		return 0, fault.New(fault.Internal, "a job wrote %.0f bytes where it had to write %d: %v", bytes, int64(outputBytes), p.end)
	}
	return time.Duration(took * float64(time.Millisecond)), nil
}

// eagerReader runs a job that writes text and polls it without pause.
func (a *agent) eagerReader(ctx context.Context) (Polled, error) {
	id, err := a.startJob(ctx, outputText)
	if err != nil {
		return Polled{}, err
	}
	j, began := handle{a, id}, time.Now()
	var got, lost int64
	var pages int
	for cursor := int64(0); ; pages++ {
		p, err := j.poll(ctx, cursor, outputToWait)
		if err != nil {
			return Polled{}, err
		}
		got, lost = got+p.next-cursor-p.dropped, lost+p.dropped
		cursor = p.next
		if p.end == nil {
			continue
		}
		took, err := complete(p)
		if err == nil && got+lost != outputBytes {
			err = fmt.Errorf("the pages add up to %d bytes and %d dropped ones, not to %d", got, lost, int64(outputBytes))
		}
		seconds := time.Since(began).Seconds()
		return Polled{Rate: outputBytes / megabyte / took.Seconds(), Received: float64(got) / megabyte / seconds,
			Pages: float64(pages+1) / seconds, Dropped: float64(lost) / outputBytes}, err
	}
}
