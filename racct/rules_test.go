package racct_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/racct"
)

var limits = racct.Limits{
	Processes: 256, Threads: 2048, OpenFiles: 16384, SwapBytes: 3 << 30, MemoryBytes: 5 << 29, CPUPercent: 200,
	Pseudoterminals: 16, WriteBytesPerS: 100 << 20,
}

const leaf = "pg-alice.j01arz3ndektsv4rrffq69g5fav"

func texts(rules []racct.Rule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, r.String())
	}
	return all
}

func TestRules(t *testing.T) {
	rules, err := racct.Rules(leaf, limits)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"jail:" + leaf + ":coredumpsize:deny=0",
		"jail:" + leaf + ":maxproc:deny=256",
		"jail:" + leaf + ":nthr:deny=2048",
		"jail:" + leaf + ":openfiles:deny=16384",
		"jail:" + leaf + ":swapuse:deny=3221225472",
		"jail:" + leaf + ":memoryuse:sigkill=2684354560",
		"jail:" + leaf + ":pcpu:deny=200",
		"jail:" + leaf + ":pseudoterminals:deny=16",
		"jail:" + leaf + ":writebps:throttle=104857600",
	}
	if diff := cmp.Diff(want, texts(rules)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if got := strings.Join(texts(rules), " "); strings.Contains(got, ":log=") {
		t.Errorf("a rule logs: %s", got)
	}
	few, err := racct.Rules(leaf, racct.Limits{})
	if err != nil || len(few) != 1 {
		t.Errorf("without limits: %v, %v", few, err)
	}
	if _, err := racct.Rules(leaf, racct.Limits{Threads: -1}); !errors.Is(err, fault.Invalid) {
		t.Errorf("a limit below zero: %v", err)
	}
}

// What must never reach the kernel: an empty name is every jail of the host.
func TestNamesThatMeanSomethingElse(t *testing.T) {
	for _, name := range []string{"", "12", "a:b", "a/b", "a=b", "a,b", "a b", "a\x00b", "ä", strings.Repeat("a", 256)} {
		if _, err := racct.Rules(name, limits); !errors.Is(err, fault.Invalid) {
			t.Errorf("Rules(%q): %v", name, err)
		}
		if _, err := racct.All(name); !errors.Is(err, fault.Invalid) {
			t.Errorf("All(%q): %v", name, err)
		}
		if _, err := racct.Freeze(name); !errors.Is(err, fault.Invalid) {
			t.Errorf("Freeze(%q): %v", name, err)
		}
		if _, err := racct.Sleepers(name); !errors.Is(err, fault.Invalid) {
			t.Errorf("Sleepers(%q): %v", name, err)
		}
	}
}

func TestFilters(t *testing.T) {
	all, err := racct.All(leaf)
	if err != nil || all.String() != "jail:"+leaf {
		t.Errorf("got %q, %v", all, err)
	}
	freeze, err := racct.Freeze(leaf)
	if err != nil || freeze.String() != "jail:"+leaf+":maxproc:deny=0" {
		t.Errorf("got %q, %v", freeze, err)
	}
	sleepers, err := racct.Sleepers(leaf)
	if err != nil || len(sleepers) != 5 || sleepers[0].String() != "jail:"+leaf+":pcpu" {
		t.Errorf("got %v, %v", sleepers, err)
	}
}

func TestParseRules(t *testing.T) {
	text := "jail:a:maxproc:deny=5,jail:a:pcpu:deny=200/jail,user:1001:maxproc:deny=9,jail:a:nthr:deny=7/process"
	got, err := racct.ParseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []racct.Rule{{"a", "maxproc", "deny", 5}, {"a", "pcpu", "deny", 200}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"x", "jail:a:maxproc:deny", "jail:a:maxproc:deny=x", "jail:a:maxproc:deny=1:2"} {
		if rules, err := racct.ParseRules(bad); err == nil {
			t.Errorf("ParseRules(%q) = %v", bad, rules)
		}
	}
}

// After "rctl -r :" everything is missing, after the freeze the former limit of processes is.
func TestMissing(t *testing.T) {
	want, err := racct.Rules(leaf, limits)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, racct.Missing(want, nil)); diff != "" {
		t.Errorf("after a wipe (-want +got):\n%s", diff)
	}
	if got := racct.Missing(want, want); len(got) != 0 {
		t.Errorf("nothing is missing: %v", got)
	}
	have := append([]racct.Rule{{leaf, "maxproc", racct.Deny, 0}, {"other", "nthr", racct.Deny, 2048}}, want[3:]...)
	if diff := cmp.Diff(want[:3], racct.Missing(want, have)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct{ host, memory, swap int64 }{
		{0, 5 << 29, 3 << 30}, {64 << 30, 5 << 29, 3 << 30}, {1 << 30, 1 << 29, (1 << 30) / 5 * 3}, {1, 1, 1},
	} {
		got := racct.Scale(limits, c.host)
		if got.MemoryBytes != c.memory || got.SwapBytes != c.swap || got.Processes != limits.Processes {
			t.Errorf("Scale for %d: %+v", c.host, got)
		}
	}
	if got := racct.Scale(racct.Limits{}, 1<<30); got != (racct.Limits{}) {
		t.Errorf("no limit became %+v", got)
	}
}

func TestParseUsage(t *testing.T) {
	got, err := racct.ParseUsage("cputime=12,datasize=0,maxproc=3,memoryuse=4096,pcpu=0")
	if err != nil {
		t.Fatal(err)
	}
	want := racct.Usage{"cputime": 12, "datasize": 0, "maxproc": 3, "memoryuse": 4096, "pcpu": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.Add(racct.Usage{"maxproc": 2, "nthr": 1})
	if got["maxproc"] != 5 || got["nthr"] != 1 {
		t.Errorf("sum: %v", got)
	}
	for _, bad := range []string{"x", "=1", "a=b", "a=1,b"} {
		if usage, err := racct.ParseUsage(bad); err == nil {
			t.Errorf("ParseUsage(%q) = %v", bad, usage)
		}
	}
}

// What parses as our rules is text that means the same to the kernel.
func FuzzParseRules(f *testing.F) {
	f.Add("jail:a:maxproc:deny=5,jail:a:pcpu:deny=200/jail")
	f.Add("user:1:x:y=1/process")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := racct.ParseRules(text)
		if err != nil {
			return
		}
		again, err := racct.ParseRules(strings.Join(texts(rules), ","))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if diff := cmp.Diff(rules, again); diff != "" {
			t.Errorf("%q (-first +second):\n%s", text, diff)
		}
		if len(racct.Missing(rules, again)) != 0 {
			t.Errorf("%q: a rule is missing from itself", text)
		}
	})
}

func FuzzParseUsage(f *testing.F) {
	f.Add("cputime=1,maxproc=2")
	f.Fuzz(func(t *testing.T, text string) {
		usage, err := racct.ParseUsage(text)
		if err == nil && len(usage) > strings.Count(text, "=") {
			t.Errorf("%q gave %v", text, usage)
		}
	})
}

// No name gives text with more fields than a rule has.
func FuzzRuleText(f *testing.F) {
	f.Add("pg-a.j1")
	f.Add(":")
	f.Fuzz(func(t *testing.T, name string) {
		rules, err := racct.Rules(name, limits)
		if err != nil {
			return
		}
		for _, r := range rules {
			if text := r.String(); strings.Count(text, ":") != 3 || strings.ContainsAny(text, ",/ \x00") {
				t.Errorf("%q gave %q", name, text)
			}
		}
	})
}
