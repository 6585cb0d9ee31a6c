//go:build host

package racct_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"playground/racct"
)

const hostJail = "pghosttest-racct.j01arz3ndektsv4rrffq69g5fav"

func host(t *testing.T) {
	t.Helper()
	if os.Getenv("PLAYGROUND_HOST_TESTS") != "1" {
		t.Skip("set PLAYGROUND_HOST_TESTS=1 on a FreeBSD host that may be lost")
	}
	if err := racct.Enabled(); err != nil {
		t.Skip(err) // the text is the test: it says what to put into loader.conf
	}
}

// Every default rule is taken before the jail exists, listed as it was given, mended after a wipe, and removed by name.
func TestHostRules(t *testing.T) {
	host(t)
	want, err := racct.Rules(hostJail, racct.Scale(limits, racct.HostMemory()))
	if err != nil {
		t.Fatal(err)
	}
	all, err := racct.All(hostJail)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { racct.Remove(all) })
	if err := racct.Add(want...); err != nil {
		t.Fatal(err)
	}
	same := func(want []racct.Rule) {
		t.Helper()
		got, err := racct.RulesOf(hostJail)
		if err != nil {
			t.Fatal(err)
		}
		less := func(a, b racct.Rule) bool { return a.Resource < b.Resource }
		if diff := cmp.Diff(want, got, cmpopts.SortSlices(less), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	same(want)
	if added, err := racct.Reconcile(want); err != nil || len(added) > 0 {
		t.Errorf("nothing was missing: %v, %v", added, err)
	}
	freeze, err := racct.Freeze(hostJail)
	if err != nil {
		t.Fatal(err)
	}
	if err := racct.Add(freeze); err != nil {
		t.Fatal(err)
	}
	if missing := missing(t, want); len(missing) != 1 || missing[0].Resource != "maxproc" {
		t.Errorf("after the freeze: %v", missing)
	}
	for range 2 { // removing nothing is no error
		if err := racct.Remove(all); err != nil {
			t.Error(err)
		}
		same(nil)
	}
	if added, err := racct.Reconcile(want); err != nil || len(added) != len(want) {
		t.Errorf("after a wipe: %v, %v", added, err)
	}
	same(want)
}

func missing(t *testing.T, want []racct.Rule) []racct.Rule {
	t.Helper()
	have, err := racct.RulesOf(hostJail)
	if err != nil {
		t.Fatal(err)
	}
	return racct.Missing(want, have)
}

// A rule that the kernel refuses takes the earlier ones of its set with it.
func TestHostAllOrNothing(t *testing.T) {
	host(t)
	bad := racct.Rule{Jail: hostJail, Resource: "writebps", Action: racct.Deny, Amount: 1} // only throttle
	if err := racct.Add(racct.Rule{Jail: hostJail, Resource: "nthr", Action: racct.Deny, Amount: 9}, bad); err == nil {
		t.Error("the rule was taken")
	}
	if left, err := racct.RulesOf(hostJail); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The answer grows over the first buffer.
func TestHostManyRules(t *testing.T) {
	host(t)
	const n = 200
	t.Cleanup(func() {
		for i := range n {
			if all, err := racct.All(fmt.Sprintf("%s%d", hostJail, i)); err == nil {
				racct.Remove(all)
			}
		}
	})
	for i := range n {
		rule := racct.Rule{Jail: fmt.Sprintf("%s%d", hostJail, i), Resource: "nthr", Action: racct.Deny, Amount: 9}
		if err := racct.Add(rule); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := racct.JailRules()
	if err != nil || len(rules) < n {
		t.Errorf("%d rules, %v", len(rules), err)
	}
}

func TestHostUsage(t *testing.T) {
	host(t)
	usage, err := racct.UsageOf(hostJail)
	if err != nil || usage["maxproc"] != 0 || len(usage) < 10 {
		t.Errorf("%v, %v", usage, err)
	}
	if racct.HostMemory() < 64<<20 {
		t.Errorf("memory %d", racct.HostMemory())
	}
}
