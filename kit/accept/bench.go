package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Numbers are what the benchmark found. Times are in milliseconds; each list holds p50 and p99 of interleaved rounds.
type numbers struct {
	Exec      map[string]spread `json:"exec_true"`
	Provision spread            `json:"provision"`
	Attach    spread            `json:"attach"`
	Kill      map[string]spread `json:"kill_and_prove"`
	Work      map[string]spread `json:"work"`
	Memory    *memory           `json:"memory,omitempty"`
}

// A spread is what a list of times comes to.
type spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

func spreadOf(times []time.Duration) spread {
	if len(times) == 0 {
		return spread{}
	}
	slices.Sort(times)
	at := func(percent int) float64 {
		return float64(times[min(len(times)*percent/100, len(times)-1)].Microseconds()) / 1000
	}
	return spread{len(times), at(50), at(99)}
}

func (s spread) String() string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms (%d)", s.P50, s.P99, s.Count)
}

// bench measures on this host, beside what an administrator would do by hand, in the same run.
func (w *world) bench(ctx context.Context) error {
	n := numbers{Exec: map[string]spread{}, Kill: map[string]spread{}, Work: map[string]spread{}}
	t, err := w.tenant(ctx, "kit-bench")
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context, *tenant, *numbers) error{w.benchExec, w.benchAttach, w.benchProvision, w.benchKill, w.benchWork, w.benchMemory} {
		if err := part(ctx, t, &n); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	w.report.note("%s", data)
	if w.options.output == "" {
		return nil
	}
	if err := os.WriteFile(w.options.output, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot write the numbers: %w", err)
	}
	return nil
}

// timed measures one call.
func timed(call func() error) (time.Duration, error) {
	began := time.Now()
	err := call()
	return time.Since(began), err
}

// benchExec times "true" through MCP, through jexec(8), and through timeout(1) and jexec(8), in turns.
func (w *world) benchExec(ctx context.Context, t *tenant, n *numbers) error {
	program := func(argv ...string) func() error {
		return func() error {
			if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("cannot run %s: %w: %s", strings.Join(argv, " "), err, out)
			}
			return nil
		}
	}
	ways := []struct {
		name string
		call func() error
	}{
		{"mcp", func() error {
			e, _, err := t.exec(ctx, "true")
			if err == nil && !e.exited(0) {
				err = fmt.Errorf("true did not exit with 0: %s", e)
			}
			return err
		}},
		{"jexec", program("/usr/sbin/jexec", t.session, "/bin/sh", "-lc", "true")},
		{"timeout jexec", program("/usr/bin/timeout", "-k", "5", "60", "/usr/sbin/jexec", t.session, "/bin/sh", "-lc", "true")},
	}
	if !w.host.freebsd {
		ways = ways[:1]
	}
	times := map[string][]time.Duration{}
	const rounds, calls = 10, 20
	for round := range rounds + 1 {
		for _, way := range ways {
			for range calls {
				took, err := timed(way.call)
				if err != nil {
					return err
				}
				if round > 0 { // the first round warms up
					times[way.name] = append(times[way.name], took)
				}
			}
		}
	}
	for _, way := range ways {
		n.Exec[way.name] = spreadOf(times[way.name])
		w.report.note("exec true, %s: %s", way.name, n.Exec[way.name])
	}
	for _, other := range ways[1:] {
		ratio := n.Exec["mcp"].P50 / n.Exec[other.name].P50
		w.report.check(ratio < 1, "bench: exec through MCP against "+other.name, "p50 below 1.00 of it", "%.2f: %s against %s", ratio, n.Exec["mcp"], n.Exec[other.name])
	}
	return nil
}

// benchAttach times open_session of a sandbox that is down, its jail and mounts included.
func (w *world) benchAttach(ctx context.Context, t *tenant, n *numbers) error {
	var times []time.Duration
	for range 10 {
		if _, err := t.call(ctx, "close_session", nil); err != nil {
			return err
		}
		took, err := timed(func() error { return t.open(ctx) })
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	n.Attach = spreadOf(times)
	w.report.note("attach: %s", n.Attach)
	return nil
}

// benchProvision times "playground user create", with the start of the tool itself.
func (w *world) benchProvision(ctx context.Context, _ *tenant, n *numbers) error {
	var times []time.Duration
	for i := range 5 {
		took, err := timed(func() error {
			_, err := w.provision(ctx, fmt.Sprintf("kit-bench-cold-%d", i))
			return err
		})
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	n.Provision = spreadOf(times)
	w.report.note("cold provision: %s", n.Provision)
	return nil
}

// killWithin is what the product's kill and proof may take of a bare jail_remove's time.
const killWithin = 1.5

// benchKill ends 250 busy forks through the product, and with nothing but a frozen jail and jail_remove(2), in turns.
func (w *world) benchKill(ctx context.Context, t *tenant, n *numbers) error {
	const forks, rounds = 250, 5
	if !w.host.freebsd {
		w.report.skip("bench: kill and prove", "the adversary and jails are FreeBSD's")
		return nil
	}
	if err := w.place(ctx, t); err != nil {
		return err
	}
	var receipts, walls, bare []time.Duration
	for range rounds {
		j, err := t.run(ctx, w.attackCommand("bomb %d", forks))
		if err != nil {
			return err
		}
		if err := j.until(ctx, w.limit(jobEnd), func(j *job) bool { return strings.Contains(j.text, "ready") }); err != nil {
			return err
		}
		wall, err := timed(func() error {
			if err := j.cancel(ctx); err != nil {
				return err
			}
			return j.finish(ctx, w.limit(jobEnd))
		})
		if err != nil {
			return err
		}
		if !j.end.Cleanup.clean() {
			return fmt.Errorf("the kill was not proved: %v", j.end)
		}
		receipts, walls = append(receipts, time.Duration(j.end.Cleanup.ElapsedMS)*time.Millisecond), append(walls, wall)
		took, err := bareKill(ctx, w.options, forks)
		if err != nil {
			return err
		}
		bare = append(bare, took)
	}
	n.Kill["receipt"], n.Kill["client"], n.Kill["bare jail_remove"] = spreadOf(receipts), spreadOf(walls), spreadOf(bare)
	ratio := n.Kill["receipt"].P50 / n.Kill["bare jail_remove"].P50
	w.report.check(ratio <= killWithin, "bench: kill and prove 250 busy forks against a bare jail_remove", fmt.Sprintf("p50 at most %.1f times", killWithin),
		"%.2f times: receipt %s; as the client sees it %s; bare %s", ratio, n.Kill["receipt"], n.Kill["client"], n.Kill["bare jail_remove"])
	return nil
}

// benchWork times the start of a confined run, which is answered once its worker is verified.
func (w *world) benchWork(ctx context.Context, _ *tenant, n *numbers) error {
	p, err := w.newWorkplay(ctx)
	if err != nil {
		return err
	}
	if err := p.paid(ctx); err != nil {
		return err
	}
	var starts []time.Duration
	for range 21 {
		if err := p.quiet(ctx); err != nil {
			return err
		}
		var thread string
		took, err := timed(func() (err error) {
			thread, err = p.api.start(ctx, p.member, goalNote)
			return err
		})
		if err != nil {
			return err
		}
		r, err := p.api.ended(ctx, thread, w.limit(runEnd))
		if err != nil {
			return err
		}
		if r.State != "done" {
			return fmt.Errorf("a run did not end well: %s", r)
		}
		starts = append(starts, took)
	}
	n.Work["worker_verified"] = spreadOf(starts[1:]) // the first one warms up
	w.report.note("a run's start, its worker confined and verified: %s", n.Work["worker_verified"])
	return p.revoke(ctx)
}

// A memory is what idle tenants take.
type memory struct {
	Tenants      int            `json:"tenants"`
	DaemonsKiB   map[string]int `json:"daemons_rss_kib"`       // with all tenants attached
	BeforeKiB    map[string]int `json:"daemons_rss_kib_empty"` // with none of them
	HostFreeMiB  [2]int         `json:"host_free_mib"`         // free and inactive pages, before and after
	PerTenantKiB float64        `json:"per_tenant_kib"`        // of the daemons' growth
}

// benchMemory attaches many tenants that do nothing.
func (w *world) benchMemory(ctx context.Context, _ *tenant, n *numbers) error {
	if w.options.tenants == 0 {
		w.report.skip("bench: memory of idle tenants", "-tenants 0")
		return nil
	}
	m := &memory{Tenants: w.options.tenants}
	var err error
	if m.BeforeKiB, err = w.daemons(); err != nil {
		return err
	}
	m.HostFreeMiB[0] = freeMiB()
	for i := range w.options.tenants {
		name := fmt.Sprintf("kit-idle-%d", i)
		if _, err := w.provision(ctx, name); err != nil {
			w.report.check(false, "bench: memory of idle tenants", fmt.Sprintf("%d tenants", w.options.tenants), "%d, then %v", i, err)
			return nil
		}
		if err := w.operator(ctx, nil, "user", "attach", w.made[len(w.made)-1].name); err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Second) // the numbers become steady
	if m.DaemonsKiB, err = w.daemons(); err != nil {
		return err
	}
	m.HostFreeMiB[1] = freeMiB()
	var before, after int
	for name, kib := range m.DaemonsKiB {
		before, after = before+m.BeforeKiB[name], after+kib
	}
	m.PerTenantKiB = float64(after-before) / float64(w.options.tenants)
	n.Memory = m
	w.report.check(true, "bench: memory of idle tenants", "a number", "%d tenants: daemons %d MiB, without them %d MiB, %.0f KiB a tenant; the host's free memory went from %d to %d MiB", w.options.tenants, after>>10, before>>10, m.PerTenantKiB, m.HostFreeMiB[0], m.HostFreeMiB[1])
	return nil
}

// daemons returns the resident size of the suite's processes by name.
func (w *world) daemons() (map[string]int, error) {
	list, err := w.host.processes()
	sizes := map[string]int{}
	for _, p := range list {
		if strings.HasPrefix(p.name, "playground") || p.name == "supervise" {
			sizes[p.name] += p.rssKiB
		}
	}
	return sizes, err
}
