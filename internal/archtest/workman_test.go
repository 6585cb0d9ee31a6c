package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"playground/policy"
	"playground/workloop"
	"playground/workloop/loop"
	"playground/workloop/tier"
)

// The manual page says what an operator can write: every topic, the ceilings as they are, and names that expressions have.
func TestWorkManual(t *testing.T) {
	text := page(t, "playgroundd.8")
	for _, word := range append(workloop.Topics(), tier.Kind, "core.hook.v1", loop.RuleRepeat, loop.RuleAbsence, loop.RuleTruncated) {
		if !strings.Contains(text, word) {
			t.Errorf("playgroundd(8) does not tell of %s", word)
		}
	}
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\.It (\w+)((?: Ta \S+){4})$`).FindAllStringSubmatch(text, -1) {
		rows[row[1]] = strings.Fields(strings.ReplaceAll(row[2], " Ta ", " "))
	}
	var have [4]tier.Limits
	for i, name := range []tier.Name{tier.Trial, tier.Paid, tier.Team, tier.Operator} {
		have[i] = tier.Builtin(name)
	}
	for name, of := range map[string]func(tier.Limits) any{
		"max_turns": func(l tier.Limits) any { return l.MaxTurns }, "wall_clock_secs": func(l tier.Limits) any { return l.WallClockSecs },
		"token_budget": func(l tier.Limits) any { return l.TokenBudget }, "default_budget_usd": func(l tier.Limits) any { return l.DefaultBudgetUSD },
		"daily_cost_cap_usd": func(l tier.Limits) any { return l.DailyCostCapUSD }, "daily_loop_cap": func(l tier.Limits) any { return l.DailyLoopCap },
		"concurrency": func(l tier.Limits) any { return l.Concurrency },
	} {
		var want []string
		for _, limits := range have {
			want = append(want, strings.Replace(fmt.Sprint(of(limits)), fmt.Sprint(tier.None), "-", 1))
		}
		if !slices.Equal(rows[name], want) {
			t.Errorf("playgroundd(8) has %s as %v, not %v", name, rows[name], want)
		}
	}
	rules := policy.New(4)
	for _, name := range []string{"resource == ''", "record.body.tool == ''", "record.body.args == {}", "current_actor() == ''", "current_namespace() == ''", "now() > timestamp(0)",
		"system.principal == ''", "system.tier == ''", "system.transport == ''", "trust('', '') > 0.0", "trust_count() > 0", "task('') == {}"} {
		word := regexp.MustCompile(`^[\w.]+`).FindString(name)
		if err := rules.Check(name, policy.Permission); err != nil || !strings.Contains(text, word) {
			t.Errorf("%s: %v; is it in playgroundd(8)?", word, err)
		}
	}
}

// The manual page tells of every code that a refusal at /v1 can have. Those of a worker's doors alone are no business of clients.
func TestManualTellsOfCodes(t *testing.T) {
	_, list, _ := strings.Cut(page(t, "playgroundd.8"), ".Ss Refusals\n")
	doors := map[string]bool{"RUN_STOPPED": true, "RUN_REFUSED": true, "BUDGET_EXHAUSTED": true, "BUDGET_REQUIRED": true, "MAX_TURNS": true, "PROVIDER_FAILED": true}
	codes := map[string]bool{}
	for _, source := range []string{"workapi/errors.go", "workloop/refusal.go", "workloop/loop/refusal.go"} {
		code, err := os.ReadFile(filepath.Join(root(t), source))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`= +"([A-Z]+(?:_[A-Z]+)*)"`).FindAllStringSubmatch(string(code), -1) {
			codes[match[1]] = true
		}
	}
	if len(codes) < 30 {
		t.Fatalf("only %d codes were found: %v", len(codes), codes)
	}
	for code := range codes {
		if told := regexp.MustCompile(`\b` + code + `\b`).MatchString(list); told == doors[code] {
			t.Errorf("%s: told of is %v", code, told)
		}
	}
}
