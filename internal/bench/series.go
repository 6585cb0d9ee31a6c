package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A series is the times of one kind of call.
type series struct {
	p50, p99 time.Duration
	rate     float64 // calls a second
}

func (s series) row(name string, floor series) {
	fmt.Printf("%-44s %9.2f %9.2f %10.0f %8.2f\n", name, ms(s.p50), ms(s.p99), s.rate, float64(s.p50)/float64(floor.p50))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// repeat makes count calls, at most level at once, after a tenth of them unmeasured.
func repeat(ctx context.Context, level, count int, call func(ctx context.Context, worker int) error) (series, error) {
	if _, err := volley(ctx, level, max(level, count/10), call); err != nil {
		return series{}, err
	}
	began := time.Now()
	times, err := volley(ctx, level, count, call)
	if err != nil {
		return series{}, err
	}
	total := time.Since(began)
	slices.Sort(times)
	return series{p50: times[len(times)/2], p99: times[len(times)*99/100], rate: float64(len(times)) / total.Seconds()}, nil
}

func volley(ctx context.Context, level, count int, call func(context.Context, int) error) ([]time.Duration, error) {
	var mu sync.Mutex
	times := make([]time.Duration, 0, count)
	group, ctx := errgroup.WithContext(ctx)
	for worker := range level {
		group.Go(func() error {
			for range count / level {
				began := time.Now()
				if err := call(ctx, worker); err != nil {
					return err
				}
				took := time.Since(began)
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
			}
			return nil
		})
	}
	err := group.Wait()
	return times, err
}

// shell is the floor: the same shell, started by a bare Go program.
func shell(ctx context.Context, _ int) error {
	return exec.CommandContext(ctx, "/bin/sh", "-lc", "true").Run()
}

// bubblewrap is the same shell in the same kinds of namespaces.
func bubblewrap(ctx context.Context, _ int) error {
	return exec.CommandContext(ctx, "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc",
		"--dev", "/dev", "--tmpfs", "/tmp", "/bin/sh", "-lc", "true").Run()
}
