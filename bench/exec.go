package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// The ways to run a command that are compared.
const (
	wayPlain  = "sh"
	wayFloor  = "sh-login"
	wayBwrap  = "bwrap"
	wayModern = "mcp-" + stateless
	wayLegacy = "mcp-" + sessions
)

// A way is one way to run the command "true".
type way struct {
	name  string
	words string
	call  func(ctx context.Context, worker int) error
	after func(ctx context.Context, worker int) error // what a call leaves to be done, which is not timed; may be nil
	// spread says that the way's calls are spread over all tenants at the highest load.
	spread bool
}

// loads is how many callers there are at once; each makes the next call when the one before has ended.
var loads = [...]int{1, 8, 32}

// A Row is one way under one load.
type Row struct {
	Way     string  `json:"way"`
	Words   string  `json:"words"`
	AtOnce  int     `json:"at_once"`
	Tenants int     `json:"tenants,omitempty"`
	Calls   int     `json:"calls"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Rate    float64 `json:"calls_per_second"`
	ToFloor *Ratio  `json:"p50_to_floor,omitempty"`
	ToBwrap *Ratio  `json:"p50_to_bwrap,omitempty"`
}

// A Ratio compares the p50 of two rows round by round: the rounds' median, and the extremes as a measure of its worth.
type Ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// A cell holds the times of one way under one load.
type cell struct {
	way     way
	load    int
	tenants int
	rounds  [][]time.Duration
	elapsed time.Duration
}

// measureExec times all ways under all loads, in turns.
func measureExec(ctx context.Context, agents agents, o Options) (rows []Row, skipped []string, err error) {
	ways, skipped := waysOf(ctx, agents)
	var cells []*cell
	for _, load := range loads {
		for _, w := range ways {
			c := &cell{way: w, load: load}
			if w.spread {
				if c.tenants = 1; load > 8 {
					c.tenants = len(agents)
				}
			}
			cells = append(cells, c)
		}
	}
	if err := takeTurns(ctx, cells, o, "commands", o.Time); err != nil {
		return nil, nil, err
	}
	for _, c := range cells {
		row := c.row()
		row.ToFloor, row.ToBwrap = ratio(c, find(cells, wayFloor, c.load)), ratio(c, find(cells, wayBwrap, c.load))
		rows = append(rows, row)
	}
	return rows, skipped, nil
}

// takeTurns lets every cell have a turn in each round. What is left of the time is divided anew before each turn, because a turn
// lasts until its last call has ended.
func takeTurns(ctx context.Context, cells []*cell, o Options, what string, total time.Duration) error {
	end, left := time.Now().Add(total), o.Rounds*len(cells)
	for round := range o.Rounds {
		o.Say(fmt.Sprintf("%s, round %d of %d", what, round+1, o.Rounds))
		for _, c := range cells {
			if err := c.turn(ctx, time.Now().Add(time.Until(end)/time.Duration(left))); err != nil {
				return fmt.Errorf("cannot measure %s, %d at once: %w", c.way.words, c.load, err)
			}
			left--
		}
	}
	return nil
}

// waysOf returns what can be compared on this machine.
func waysOf(ctx context.Context, agents agents) (ways []way, skipped []string) {
	plain := func(argv ...string) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error { return command(ctx, argv...).Run() }
	}
	// The tenants' own /etc/profile starts no process; this one may. Hence the shell without it too.
	ways = []way{
		{name: wayPlain, words: "sh -c true", call: plain("/bin/sh", "-c", "true")},
		{name: wayFloor, words: "sh -lc true (floor)", call: plain("/bin/sh", "-lc", "true")},
	}
	argv := bwrapArgs()
	switch out, err := command(ctx, argv...).CombinedOutput(); {
	case err == nil:
		ways = append(ways, way{name: wayBwrap, words: "bwrap sh -lc true", call: plain(argv...)})
	default:
		skipped = append(skipped, fmt.Sprintf("bwrap: %v %.200s", err, out))
	}
	for _, era := range []struct{ name, version string }{{wayModern, stateless}, {wayLegacy, sessions}} {
		ways = append(ways, way{name: era.name, words: "MCP " + era.version + " exec true", spread: true, call: func(ctx context.Context, worker int) error {
			return agents[worker%len(agents)].exec(ctx, era.version)
		}})
	}
	return ways, skipped
}

// command starts a program as bare as it can be: no environment of the caller's, no profile of the caller's own.
func command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "LANG=C.UTF-8"}, "/"
	return cmd
}

// bwrapArgs runs the shell in the kinds of namespaces that a tenant's command has, with the system's folders as the host
// has them, as links into /usr or as folders.
func bwrapArgs() []string {
	argv := []string{"bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
		"--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib64"} {
		if target, err := os.Readlink(dir); err == nil {
			argv = append(argv, "--symlink", target, dir)
		} else if _, err := os.Stat(dir); err == nil {
			argv = append(argv, "--ro-bind", dir, dir)
		}
	}
	return append(argv, "--proc", "/proc", "--dev", "/dev", "/bin/sh", "-lc", "true")
}

// turn makes calls until a point in time, and at least one a caller. Each caller's first call is not counted: it finds what
// the turn before left.
func (c *cell) turn(ctx context.Context, until time.Time) error {
	if err := c.volley(ctx, func() bool { return true }, nil); err != nil {
		return err
	}
	times := make([][]time.Duration, c.load)
	began := time.Now()
	if err := c.volley(ctx, func() bool { return time.Now().After(until) }, times); err != nil {
		return err
	}
	c.elapsed += time.Since(began)
	all := slices.Concat(times...)
	slices.Sort(all)
	c.rounds = append(c.rounds, all)
	return nil
}

// volley lets every caller make calls until done says so after one.
func (c *cell) volley(ctx context.Context, done func() bool, times [][]time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	for caller := range c.load {
		worker := caller
		if c.tenants == 1 {
			worker = 0
		}
		group.Go(func() error {
			for {
				began := time.Now()
				if err := c.way.call(ctx, worker); err != nil {
					return err
				}
				if times != nil {
					times[caller] = append(times[caller], time.Since(began))
				}
				if c.way.after != nil {
					if err := c.way.after(ctx, worker); err != nil {
						return err
					}
				}
				if done() {
					return nil
				}
			}
		})
	}
	return group.Wait()
}

func (c *cell) row() Row {
	all := slices.Concat(c.rounds...)
	slices.Sort(all)
	return Row{Way: c.way.name, Words: c.way.words, AtOnce: c.load, Tenants: c.tenants, Calls: len(all),
		P50: milliseconds(quantile(all, 50)), P99: milliseconds(quantile(all, 99)), Rate: float64(len(all)) / c.elapsed.Seconds()}
}

// quantile returns a percentile of sorted times.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func find(cells []*cell, name string, load int) *cell {
	for _, c := range cells {
		if c.way.name == name && c.load == load {
			return c
		}
	}
	return nil
}

// ratio compares c with base; nil if there is nothing to compare.
func ratio(c, base *cell) *Ratio {
	if base == nil || base == c {
		return nil
	}
	var each []float64
	for i := range c.rounds {
		each = append(each, float64(quantile(c.rounds[i], 50))/float64(quantile(base.rounds[i], 50)))
	}
	slices.Sort(each)
	return &Ratio{Median: median(each), Low: each[0], High: each[len(each)-1]}
}

// median returns the middle of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
