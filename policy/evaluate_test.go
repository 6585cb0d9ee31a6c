package policy

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// call is a subject like those of the guard.
func call(tool string, args map[string]any) Subject {
	return Subject{
		Actor: "did:sync:user:ann", Namespace: "default", Resource: "tool:" + tool,
		Record: map[string]any{
			"act": "CALL", "actor": "did:sync:user:ann", "thread": "th_1", "clock": int64(7), "data_type": "SCALAR", "parents": []any{"p"},
			"body": map[string]any{"tool": tool, "args": args},
		},
		Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("x", 3600)),
		Trust: func(actor, domain string) float64 {
			return map[string]float64{"did:sync:user:ann/code": 0.75}[actor+"/"+domain]
		},
		Task:   func(alias string) map[string]any { return map[string]any{"alias": alias, "done": true} },
		System: map[string]any{"load": 0.5},
	}
}

func TestNames(t *testing.T) {
	s := call("bash", map[string]any{"command": "rm -rf /", "n": 3.0, "list": []any{1.0, "a"}})
	s.TrustCount = 4
	e := New(64)
	for _, expr := range []string{
		`resource == "tool:bash"`,
		`record.act == "CALL" && record.actor == current_actor() && record.thread == "th_1" && record.clock == 7 && record.data_type == "SCALAR"`,
		`record.parents == ["p"] && size(record.parents) == 1`,
		`record.body.tool == "bash" && record.body.args.command.contains("rm -rf")`,
		`record.body.args.command.matches("rm +-[a-z]*r")`,
		`matches(record.body.args.command, "^rm")`,
		`record.body.args["n"] > 2 && record.body.args.n == 3 && record.body.args.n < 3.5`,
		`has(record.body.args.command) && !has(record.body.args.cwd)`,
		`record.body.args.list.exists(x, x == "a") && record.body.args.list.all(x, x != "b")`,
		`record.body.args.list.map(x, string(x)).size() == 2 && record.body.args.list.filter(x, x == 1).size() == 1`,
		`record.body.args.list.exists_one(x, x == 1)`,
		`current_namespace() == "default"`,
		`trust(current_actor(), "code") > 0.5 && trust("nobody", "code") == 0.0 && trust_count() == 4`,
		`task("x").alias == "x" && task("x").done`,
		`now() == timestamp("2026-03-01T11:00:00Z") && now().getHours() == 11`,
		`system.load < 1.0`,
		`fleet_frozen_namespaces() == [] && !("a" in fleet_frozen_namespaces()) && !fleet_hard_frozen_past_grace() && !fleet_emergency_active()`,
	} {
		if d := e.Decide([]Rule{{Name: "r", Expression: expr, Action: Deny, Enabled: true}}, s); d.Action != Deny || d.Limited {
			t.Errorf("%s: %+v", expr, d)
		}
	}
	bare := New(8).Decide([]Rule{{Name: "r", Action: Deny, Enabled: true,
		Expression: `trust("a", "b") == 0.0 && trust_count() == 0 && task("x") == {} && system == {} && record == {} && now() < timestamp("0001-01-02T00:00:00Z")`}}, Subject{})
	if bare.Action != Deny {
		t.Errorf("the empty subject: %+v", bare)
	}
}

func TestOrder(t *testing.T) {
	named := func(name string, action Action, priority int64, expr string) Rule {
		return Rule{Name: name, Action: action, Priority: priority, Expression: expr, Enabled: true, Record: "id-" + name}
	}
	off := named("off", Deny, 99, "true")
	off.Enabled = false
	for name, c := range map[string]struct {
		rules []Rule
		want  Decision
	}{
		"none":                       {nil, Decision{}},
		"nothing true":               {[]Rule{named("a", Deny, 1, "false")}, Decision{}},
		"higher first":               {[]Rule{named("a", Deny, 1, "true"), named("b", Allow, 2, "true")}, Decision{Action: Allow, Rule: "b", Version: "id-b"}},
		"first true":                 {[]Rule{named("a", Deny, 1, "true"), named("b", Allow, 2, "false")}, Decision{Action: Deny, Rule: "a", Version: "id-a"}},
		"deny first":                 {[]Rule{named("a", Allow, 1, "true"), named("z", Deny, 1, "true")}, Decision{Action: Deny, Rule: "z", Version: "id-z"}},
		"then by name":               {[]Rule{named("b", Deny, 1, "true"), named("a", Deny, 1, "true")}, Decision{Action: Deny, Rule: "a", Version: "id-a"}},
		"negative":                   {[]Rule{named("a", Deny, -1, "true"), named("b", Allow, 0, "true")}, Decision{Action: Allow, Rule: "b", Version: "id-b"}},
		"disabled":                   {[]Rule{off, named("a", Allow, 1, "true")}, Decision{Action: Allow, Rule: "a", Version: "id-a"}},
		"an unknown action denies":   {[]Rule{named("a", "ask", 1, "true")}, Decision{Action: Deny, Rule: "a", Version: "id-a"}},
		"failed ones are skipped":    {[]Rule{named("b", Deny, 3, "record.no.such"), named("c", Allow, 4, "record.x == 1"), named("a", Allow, 1, "true")}, Decision{Action: Allow, Rule: "a", Version: "id-a", Skipped: []string{"c", "b"}}},
		"no bool is skipped":         {[]Rule{named("a", Deny, 1, "record.act"), named("b", Deny, 0, "record.body")}, Decision{Skipped: []string{"a", "b"}}},
		"what does not compile":      {[]Rule{named("a", Deny, 1, "((")}, Decision{Skipped: []string{"a"}}},
		"division by nothing":        {[]Rule{named("a", Deny, 1, "1 / 0 == 1")}, Decision{Skipped: []string{"a"}}},
		"a pattern out of the field": {[]Rule{named("a", Deny, 1, "'x'.matches(record.act + '(')")}, Decision{Skipped: []string{"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := New(8).Decide(c.rules, call("bash", nil))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// Decide is what a reader of the documentation would do with pencil and paper.
func TestDecideIsTheNaiveOne(t *testing.T) {
	outcomes := map[string]string{"true": "true", "false": "false", "record.no.such": "fails", "resource == 'tool:bash'": "true", "has(record.nope)": "false"}
	expressions := []string{"true", "false", "record.no.such", "resource == 'tool:bash'", "has(record.nope)"}
	e := New(4) // smaller than the number of expressions, so that some are forgotten
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rule {
			return Rule{
				Name:       rapid.StringMatching(`[a-c]{1,2}`).Draw(t, "name"),
				Action:     rapid.SampledFrom([]Action{Allow, Deny}).Draw(t, "action"),
				Priority:   rapid.Int64Range(-1, 1).Draw(t, "priority"),
				Enabled:    rapid.Bool().Draw(t, "enabled"),
				Expression: rapid.SampledFrom(expressions).Draw(t, "expression"),
			}
		}), 0, 12).Draw(t, "rules")
		for i := range rules {
			rules[i].Record = fmt.Sprint(i)
		}
		before := slices.Clone(rules)

		var want Decision
		left := slices.Clone(rules)
		for len(left) > 0 && want.Action == "" {
			best := 0
			for i, r := range left {
				if b := left[best]; r.Priority > b.Priority ||
					r.Priority == b.Priority && r.Action == Deny && b.Action == Allow ||
					r.Priority == b.Priority && r.Action == b.Action && r.Name < b.Name {
					best = i
				}
			}
			r := left[best]
			left = slices.Delete(left, best, best+1)
			switch {
			case !r.Enabled:
			case outcomes[r.Expression] == "true":
				want.Action, want.Rule, want.Version = r.Action, r.Name, r.Record
			case outcomes[r.Expression] == "fails":
				want.Skipped = append(want.Skipped, r.Name)
			}
		}
		if diff := cmp.Diff(want, e.Decide(rules, call("bash", nil))); diff != "" {
			t.Errorf("decision (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, rules); diff != "" {
			t.Errorf("the caller's rules changed:\n%s", diff)
		}
	})
}

// A model that writes the arguments can make a rule expensive. The daemon goes on, and a rule that denies is not got rid of.
func TestAttacks(t *testing.T) {
	numbers := make([]any, 100_000)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	args := map[string]any{"s": strings.Repeat("ab", 2<<20), "l": numbers, "p": strings.Repeat("(a|b)*", 400), "q": strings.Repeat("(x{30}){30}", 3)}
	s := call("bash", args)
	for name, expr := range map[string]string{
		"nested loops":         `record.body.args.l.all(x, record.body.args.l.all(y, record.body.args.l.all(z, true)))`,
		"maps of maps":         `record.body.args.l.map(x, record.body.args.l.map(y, record.body.args.l.map(z, z))).size() > 0`,
		"deep equality":        `record.body.args.l.all(x, record.body.args.l == record.body.args.l)`,
		"look-ups":             `record.body.args.l.all(x, !("z" in record.body.args.l))`,
		"doubling":             `record.body.args.l.map(x, record.body.args.s + record.body.args.s).size() > 0`,
		"chained sums":         strings.Repeat("record.body.args.s + ", 90) + `"" == "x"`,
		"copies":               `record.body.args.l.all(x, string(bytes(record.body.args.s)) != "")`,
		"list of lists":        `record.body.args.l.map(x, record.body.args.l + record.body.args.l).map(l, l.map(x, x)).size() > 0`,
		"pattern on long text": `record.body.args.s.matches("((a|b)(a|b)(a|b)(a|b))*c")`,
		"many patterns":        `record.body.args.l.all(x, (string(x) + record.body.args.p).matches("(a|b|c|d)*e|x*"))`,
		"long pattern":         `"aaaa".matches(record.body.args.s)`,
		"deep pattern":         `"aaaa".matches(record.body.args.p)`,
		"exploding pattern":    `"aaaa".matches(record.body.args.q)`,
	} {
		t.Run(name, func(t *testing.T) {
			if len(expr) > maxExpression {
				t.Fatal("the attack is too long to be an expression")
			}
			e := New(8)
			if err := e.Check(expr, Permission); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			deny := e.Decide([]Rule{{Name: "r", Expression: expr, Action: Deny, Enabled: true}}, s)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
			if deny.Action != Deny || !deny.Limited || deny.Rule != "r" || deny.Skipped != nil {
				t.Errorf("a rule that denies: %+v", deny)
			}
			allow := e.Decide([]Rule{{Name: "r", Expression: expr, Action: Allow, Enabled: true}}, s)
			if diff := cmp.Diff(Decision{Skipped: []string{"r"}}, allow); diff != "" {
				t.Errorf("a rule that allows (-want +got):\n%s", diff)
			}
			if _, fires, err := e.Fires(Hook{Name: "h", When: strings.ReplaceAll(expr, "record.body.args", "args"), Text: "x", Enabled: true}, HookCall{Args: args}); fires || err == nil {
				t.Errorf("a hook fires: %v, %v", fires, err)
			}
		})
	}
}

// What people write about what tools are given stays well within the bounds, for the largest arguments too.
func TestHonestRulesOnLargeArguments(t *testing.T) {
	s := call("write_file", map[string]any{"path": "a/b", "content": strings.Repeat("some text\n", 300_000)})
	for _, expr := range []string{
		`record.body.args.content.contains("secret") || record.body.args.content.contains("password") || record.body.args.path.endsWith(".env")`,
		`record.body.args.content.matches("(?i)secret")`,
		`size(record.body.args.content) > 10000000`,
	} {
		if d := New(1).Decide([]Rule{{Name: "r", Expression: expr, Action: Deny, Enabled: true}}, s); d.Action != "" || d.Skipped != nil {
			t.Errorf("%s: %+v", expr, d)
		}
	}
}

// A hundred rules at their bounds share one deadline. The rule that it falls into may still be known to be false by its other half.
func TestManyExpensiveRules(t *testing.T) {
	numbers := make([]any, 5000)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	var rules []Rule
	for i := range 100 {
		rules = append(rules, Rule{Name: fmt.Sprint(i), Action: Allow, Enabled: true,
			Expression: fmt.Sprintf(`record.body.args.l.all(x, record.body.args.l.all(y, y >= 0.0)) && %d == 0`, i+1)})
	}
	start := time.Now()
	d := New(128).Decide(rules, call("bash", map[string]any{"l": numbers}))
	if d.Action != "" || len(d.Skipped) < len(rules)-1 || time.Since(start) > 10*deadline {
		t.Errorf("after %v: %+v", time.Since(start), d)
	}
}

func TestFires(t *testing.T) {
	e := New(8)
	hook := Hook{Name: "h", When: `tool == "bash" && status == "error" && args.n == 1 && content.startsWith("x") && size(content) == 4096`,
		Text: "${tool}: ${status}, ${tool}", Enabled: true}
	failed := HookCall{Tool: "bash", Status: "error", Args: map[string]any{"n": 1.0}, Content: strings.Repeat("x", 4095) + "é" + "more"}
	if text, fires, err := e.Fires(hook, failed); text != "bash: error, bash" || !fires || err != nil {
		t.Errorf("%q, %v, %v", text, fires, err)
	}
	// What is filled in is not looked at again.
	failed.Tool, hook.When = "${status}", "true"
	if text, _, err := e.Fires(hook, failed); text != "${status}: error, ${status}" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	hook.Enabled = false
	if _, fires, err := e.Fires(hook, failed); fires || err != nil {
		t.Errorf("a hook that is switched off: %v, %v", fires, err)
	}
	for _, when := range []string{"args.no.such", "((", "args.n"} {
		if _, fires, err := e.Fires(Hook{Name: "h", When: when, Text: "x", Enabled: true}, failed); fires || err == nil {
			t.Errorf("%s: %v, %v", when, fires, err)
		}
	}
	if _, fires, err := e.Fires(Hook{Name: "h", When: `content == "a\uFFFDb" && args == {}`, Text: "x", Enabled: true}, HookCall{Content: "a\xffb"}); !fires || err != nil {
		t.Errorf("bytes that are no UTF-8: %v, %v", fires, err)
	}
}

func TestStats(t *testing.T) {
	e := New(2)
	for _, expr := range []string{"true", "true", "false", "!true", "true", "((", "((", "!true"} {
		_ = e.Check(expr, Permission)
	}
	got := e.Stats()
	if got.AvgCompileMicros <= 0 {
		t.Errorf("compiling took %v", got.AvgCompileMicros)
	}
	got.AvgCompileMicros = 0
	want := Stats{Hits: 2, Misses: 6, CompileErrors: 2, HitRatePct: 25, Size: 2, Capacity: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	if err := e.Check("true", "elsewhere"); err == nil {
		t.Error("an unknown context is taken")
	}
	if err := e.Check("tool == ''", Permission); err == nil {
		t.Error("contexts are mixed up")
	}
}

func TestConcurrentUse(t *testing.T) {
	e := New(3)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				expr := fmt.Sprintf(`record.body.args.n == %d && resource.matches("^tool:[a-%c]")`, j%5, 'b'+rune(j%5))
				d := e.Decide([]Rule{{Name: "r", Expression: expr, Action: Deny, Enabled: true}}, call("bash", map[string]any{"n": float64(i % 5)}))
				if (d.Action == Deny) != (i%5 == j%5) || d.Skipped != nil {
					t.Errorf("%s for %d: %+v", expr, i%5, d)
				}
			}
		})
	}
	group.Wait()
	if s := e.Stats(); s.Size > 3 {
		t.Errorf("the cache holds %d", s.Size)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var rules []Rule
			for i := range n {
				rules = append(rules, Rule{Name: fmt.Sprint("r", i), Action: Deny, Priority: int64(i % 7), Enabled: true,
					Expression: fmt.Sprintf(`resource == "tool:bash" && record.body.args.command.contains("forbidden-%d")`, i)})
			}
			e, s := New(1024), call("bash", map[string]any{"command": "ls -l /tmp"})
			b.ReportAllocs()
			for b.Loop() {
				if d := e.Decide(rules, s); d.Action != "" || d.Skipped != nil {
					b.Fatalf("%+v", d)
				}
			}
		})
	}
}
