// Command bench measures the suite on this machine and prints one table: MCP round trips of a command at three degrees of
// concurrency beside the bare cost of the same shell and of bwrap(1), job output through the ring, and resident memory.
// All numbers of a table come from one run; ratios between them say more than the numbers.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"playground/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// tenants is how many share the load at the highest concurrency: one tenant may run 8 commands at once.
const tenants = 4

func run(ctx context.Context) error {
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" {
		return errors.New("PLAYGROUND_BIN is not set: run `make bench`")
	}
	b, err := startBench(ctx, bin)
	if err != nil {
		return err
	}
	err = b.measure(ctx)
	return errors.Join(err, b.stop())
}

// A bench is a running suite to measure.
type bench struct {
	bin    string
	state  string
	suite  *suite.Suite
	cancel context.CancelFunc
	ended  chan error
}

// startBench starts the suite in a temporary folder.
func startBench(ctx context.Context, bin string) (*bench, error) {
	state, err := os.MkdirTemp("/tmp", "pgbench")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	listen := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	s, err := suite.Open(suite.Options{State: state, Listen: listen, Bin: bin})
	if err != nil {
		return nil, errors.Join(err, suite.Remove(state))
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &bench{bin: bin, state: state, suite: s, cancel: cancel, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() { b.ended <- s.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
		return b, nil
	case err := <-b.ended:
		b.ended <- err
		return nil, errors.Join(err, b.stop())
	}
}

// stop ends the suite and removes its folder.
func (b *bench) stop() error {
	b.cancel()
	err := <-b.ended
	b.suite.Close()
	return errors.Join(err, suite.Remove(b.state))
}

// measure prints the table, a row as soon as it is known.
func (b *bench) measure(ctx context.Context) error {
	fmt.Printf("%-44s %9s %9s %10s %8s\n", "", "p50 ms", "p99 ms", "calls/s", "ratio")
	idle := memory(os.Getpid())
	levels := []int{1, 8, 32}
	floor := map[int]series{}
	for _, level := range levels {
		s, err := repeat(ctx, level, 200*min(level, 4), shell)
		if err != nil {
			return err
		}
		floor[level] = s
		s.row(fmt.Sprintf("sh -lc true, bare, %d at once", level), s)
	}
	for _, level := range levels {
		s, err := repeat(ctx, level, 100*min(level, 4), bubblewrap)
		if err != nil {
			fmt.Printf("%-44s not measured: %v\n", "bwrap", err)
			break
		}
		s.row(fmt.Sprintf("bwrap sh -lc true, %d at once", level), floor[level])
	}
	agents, err := b.connect(ctx, tenants)
	if err != nil {
		return err
	}
	defer agents.close()
	for _, level := range levels {
		used := agents[:1]
		if level > 8 {
			used = agents
		}
		s, err := repeat(ctx, level, 250*min(level, 4), used.exec)
		if err != nil {
			return err
		}
		s.row(fmt.Sprintf("MCP exec of true, %d at once, %d tenant(s)", level, len(used)), floor[level])
	}
	rate, err := agents[0].stream(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%-44s %9.0f MB/s\n", "job output through the ring, polled", rate)
	fmt.Printf("%-44s %9.1f MB\n", "resident memory of the idle daemons", idle)
	busy, err := agents.busy(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-44s %9.1f MB (all processes: daemons, holders, inits, 32 shells)\n", "resident memory with 32 jobs", busy)
	return nil
}

// path returns a program's path in the measured build.
func (b *bench) path(name string) string { return filepath.Join(b.bin, name) }

// settle is how long a number needs to become steady after a change.
const settle = time.Second
