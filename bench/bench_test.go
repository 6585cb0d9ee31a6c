package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/fault"
)

func TestQuantileAndMedian(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		sorted  []time.Duration
		percent int
		want    time.Duration
	}{
		{hundred, 50, 51}, {hundred, 99, 100}, {hundred[:1], 50, 1}, {hundred[:1], 99, 1}, {hundred[:2], 99, 2},
	} {
		if got := quantile(c.sorted, c.percent); got != c.want {
			t.Errorf("percentile %d of %d values is %d, want %d", c.percent, len(c.sorted), got, c.want)
		}
	}
	if got := median([]float64{1, 2, 10}); got != 2 {
		t.Errorf("median of three is %v", got)
	}
	if got := median([]float64{1, 2, 4, 10}); got != 3 {
		t.Errorf("median of four is %v", got)
	}
}

// A machine that became ten times slower in the second round must not change the ratio.
func TestRatioIsTakenInsideARound(t *testing.T) {
	round := func(d time.Duration) []time.Duration { return []time.Duration{d, d, d} }
	a := &cell{rounds: [][]time.Duration{round(20), round(200), round(22)}}
	b := &cell{rounds: [][]time.Duration{round(10), round(100), round(10)}}
	got := ratio(a, b)
	if *got != (Ratio{Median: 2, Low: 2, High: 2.2}) {
		t.Errorf("ratio %+v", *got)
	}
	if ratio(a, nil) != nil || ratio(a, a) != nil {
		t.Error("a ratio to nothing, or to itself")
	}
}

func TestTurn(t *testing.T) {
	var mu sync.Mutex
	var calls, now, most int64
	c := &cell{load: 4, way: way{call: func(context.Context, int) error {
		mu.Lock()
		calls, now = calls+1, now+1
		most = max(most, now)
		mu.Unlock()
		time.Sleep(2 * time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		return nil
	}}}
	if err := c.turn(t.Context(), time.Now().Add(50*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	counted := int64(len(c.rounds[0]))
	if counted < 4 || calls != counted+4 { // one of each caller is not counted
		t.Errorf("%d calls, %d counted", calls, counted)
	}
	if most != 4 {
		t.Errorf("%d calls at once, want 4", most)
	}
	// A slice that is over already still gives every caller one call.
	if err := c.turn(t.Context(), time.Now()); err != nil || len(c.rounds[1]) != 4 {
		t.Errorf("%d calls, error %v", len(c.rounds[1]), err)
	}
	row := c.row()
	if row.P50 < 2 || row.P99 < row.P50 || row.Rate <= 0 || row.Calls != int(counted)+4 {
		t.Errorf("row %+v", row)
	}
	broken := errors.New("broken")
	c.way.call = func(context.Context, int) error { return broken }
	if err := c.turn(t.Context(), time.Now()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func sample() *Report {
	r := &Report{Version: "1", Rounds: 3, Isolation: "namespaces", Skipped: []string{"bwrap: not installed"},
		Machine: Machine{OS: "linux/amd64", CPU: "abacus", Cores: 2, Kernel: "Linux 6", LoadStart: [3]float64{2}},
		Exec: []Row{
			{Way: wayFloor, Words: "sh -lc true (floor)", AtOnce: 1, Calls: 10, P50: 1.234, P99: 12.34, Rate: 800, ToBwrap: &Ratio{0.5, 0.4, 0.6}},
			{Way: wayModern, Words: "MCP " + stateless + " exec true", AtOnce: 32, Tenants: 4, Calls: 10, P50: 123.4, P99: 200, Rate: 250, ToFloor: &Ratio{2, 1, 3}, ToBwrap: &Ratio{1.25, 1, 2}},
		},
		Gateway: Gateway{StreamMemory: 4.5, Skipped: []string{"nginx: asleep"}, Rows: []GatewayRow{
			{Row: Row{Way: wayDirect, Words: "directly", AtOnce: 1, P50: 0.1}},
			{Row: Row{Way: wayGateway, Words: "through playgroundd", AtOnce: 1, P50: 0.3}, Added50: 0.2, ToNginx: &Ratio{1.2, 1, 1.4}}}},
		Output: Output{Bytes: outputBytes, Rate: 250, Polled: Polled{Rate: 600, Received: 10, Pages: 40}},
		Work: Work{Capacity: 16, Worker: WorkerMemory{Workers: 8, Resident: 21, Part: 9.5, Added: 11},
			Append:   []WorkRow{{Row: Row{Words: "a plain file", AtOnce: 1, P50: 0.5}}, {Row: Row{Way: wayAppend, Words: "a record", AtOnce: 32, P50: 0.75, Rate: 9000}, ToBase: &Ratio{1.5, 1.4, 1.6}}},
			Verdicts: []WorkRow{{Row: Row{Way: wayVerdict, Words: "a verdict", AtOnce: 1, P50: 0.875, Rate: 777}}},
			Runs:     []WorkRow{{Row: Row{Words: "sandboxed", AtOnce: 16, P50: 12.5, Rate: 31}, ToBase: &Ratio{3.5, 3, 4}}}},
		Memory: []Footprint{{When: "idle, no tenant", Total: 30, Processes: 3, Daemons: []DaemonMemory{{Name: "playground-jaild", Resident: 7}, {Name: "playgroundd", Resident: 15}}}},
	}
	r.Aims = r.aims()
	return r
}

func TestAdded(t *testing.T) {
	ms := func(n ...int) (all [][]time.Duration) {
		for _, n := range n {
			all = append(all, []time.Duration{time.Duration(n) * time.Millisecond})
		}
		return all
	}
	direct, nginx, gateway := &cell{rounds: ms(1, 2, 9)}, &cell{rounds: ms(3, 6, 8)}, &cell{rounds: ms(4, 8, 99)}
	// The last round, in which nginx was faster than the direct way, says nothing.
	if got := added(gateway, nginx, direct); got == nil || *got != (Ratio{1.5, 1.5, 1.5}) {
		t.Errorf("got %+v", got)
	}
	if got := added(gateway, nil, direct); got != nil {
		t.Errorf("compared with nothing: %+v", got)
	}
	if got := added(gateway, direct, direct); got != nil {
		t.Errorf("compared with what adds nothing: %+v", got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"exec true, 4 tenants", "  123  ", "1.00-2.00", "JOB OUTPUT", "idle, no tenant", "jaild", "abacus, 2 cores", "was busy before",
		"not measured: bwrap", "not measured: nginx: asleep",
		"9000", "1.40-1.60", "0.88", "3.00-4.00", "its model thinks", "11.0\n",
		"through playgroundd", "1.00-1.40", "100 open streams", "met     gateway's added latency, to nginx's: 1.20 times", "MISSED  exec over MCP, 32 at once, to bwrap: 1.25 times", "MISSED  job output: 250 MB/s", "met     memory, idle, no tenant: 30.0 MB",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "777") {
		t.Errorf("a rate of verdicts is shown:\n%s", out.String())
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 140 || strings.HasSuffix(line, " \n") {
			t.Errorf("too long, or blanks at the end: %q", line)
		}
	}
}

func TestJSON(t *testing.T) {
	data, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"p50_ms":1.234`, `"p50_to_bwrap":{"median":1.25,"low":1,"high":2}`, `"mb_per_second":250`, `"total_mb":30`, `"met":false`, `"admission_capacity":16`, `"p50_to_base":{"median":3.5`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
	}
}

func TestRefusals(t *testing.T) {
	if _, err := Run(t.Context(), Options{Rounds: 0, Time: time.Second}); !errors.Is(err, fault.Invalid) {
		t.Errorf("no rounds: %v", err)
	}
	dir := t.TempDir()
	if _, err := Run(t.Context(), Options{Rounds: 1, Time: time.Second, State: dir}); !errors.Is(err, fault.Invalid) {
		t.Errorf("a folder that exists: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the folder that exists was touched: %v", err)
	}
}

// A suite that cannot start leaves nothing behind.
func TestNoDaemons(t *testing.T) {
	state := stateName(t)
	if _, err := Run(t.Context(), Options{Bin: "/nonexistent", Rounds: 1, Time: time.Second, State: state}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder is still there: %v", err)
	}
}

// stateName returns a short path of nothing: t.TempDir may be too long for sockets, and closed to a sandbox's uids.
func stateName(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgbench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "s")
}
