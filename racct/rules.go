package racct

import (
	"fmt"
	"strconv"
	"strings"

	"playground/fault"
)

// The actions of rctl(8) that rules here use. The action "log" is never used: a tenant could fill the host's log with it.
const (
	Deny     = "deny"     // the request fails
	Kill     = "sigkill"  // the process that grew over the limit is killed
	Throttle = "throttle" // the process is slowed down; only for the four IO resources
)

// A Rule is one rctl(8) rule on one jail.
type Rule struct {
	Jail     string // the full name
	Resource string
	Action   string
	Amount   int64 // always a plain number: suffixes are rctl(8)'s, not the kernel's
}

// String returns the rule as rctl_add_rule(2) takes it.
func (r Rule) String() string {
	return "jail:" + r.Jail + ":" + r.Resource + ":" + r.Action + "=" + strconv.FormatInt(r.Amount, 10)
}

// Rules returns the rules for one job's leaf jail. A limit of 0 has none, but for core files, which are always refused.
func Rules(jail string, l Limits) ([]Rule, error) {
	if err := validJail(jail); err != nil {
		return nil, err
	}
	all := []Rule{
		{jail, "maxproc", Deny, l.Processes},
		{jail, "nthr", Deny, l.Threads},
		{jail, "openfiles", Deny, l.OpenFiles},
		// swapuse is charged when memory is promised, so that an allocation fails. memoryuse is what is resident: the kernel
		// looks once a second and its "deny" only pages the host out, so that over it there is only the kill.
		{jail, "swapuse", Deny, l.SwapBytes},
		{jail, "memoryuse", Kill, l.MemoryBytes},
		{jail, "pcpu", Deny, l.CPUPercent},
		{jail, "pseudoterminals", Deny, l.Pseudoterminals},
		{jail, "writebps", Throttle, l.WriteBytesPerS},
	}
	rules := []Rule{{jail, "coredumpsize", Deny, 0}}
	for _, r := range all {
		if r.Amount < 0 {
			return nil, fault.New(fault.Invalid, "limit of %s is below zero", r.Resource)
		}
		if r.Amount > 0 {
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// Freeze returns the rule that makes every fork(2) in the jail fail. It takes the place of the jail's limit of processes,
// because a jail has one "deny" per resource (rctl_add_rule(2)).
func Freeze(jail string) (Rule, error) {
	if err := validJail(jail); err != nil {
		return Rule{}, err
	}
	return Rule{jail, "maxproc", Deny, 0}, nil
}

// A Filter names the rules to remove or to list.
type Filter struct{ text string }

// String returns the filter as rctl_remove_rule(2) takes it.
func (f Filter) String() string { return f.text }

// All is the filter of all rules of one jail. The empty name is refused: the kernel would take it for every jail's.
func All(jail string) (Filter, error) {
	if err := validJail(jail); err != nil {
		return Filter{}, err
	}
	return Filter{"jail:" + jail}, nil
}

// Sleepers are the filters of the rules that put processes into a sleep which SIGKILL does not end before the kernel's
// accounting thread wakes them (kern_racct.c racct_proc_throttled). They must go before processes are killed.
func Sleepers(jail string) ([]Filter, error) {
	if err := validJail(jail); err != nil {
		return nil, err
	}
	var filters []Filter
	for _, resource := range []string{"pcpu", "readbps", "writebps", "readiops", "writeiops"} {
		filters = append(filters, Filter{"jail:" + jail + ":" + resource})
	}
	return filters, nil
}

// validJail refuses names that mean something else in a rule: the empty one is every jail, a number is not a name, and
// : / = , are separators (rctl(8)).
func validJail(name string) error {
	digits := true
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.'
		if digit := c >= '0' && c <= '9'; !digit {
			digits = false
			if !letter {
				return fault.New(fault.Invalid, "jail name %.64q cannot have limits", name)
			}
		}
	}
	if name == "" || digits || len(name) > maxName {
		return fault.New(fault.Invalid, "jail name %.64q cannot have limits", name)
	}
	return nil
}

// maxName is MAXHOSTNAMELEN without its NUL, the bound of a jail's full name.
const maxName = 255

// ParseRules reads what rctl_get_rules(2) returns: rules separated by commas. Rules of other subjects than jails are left
// out.
func ParseRules(text string) ([]Rule, error) {
	var rules []Rule
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		rule, ours, err := parseRule(word)
		if err != nil {
			return nil, err
		}
		if ours {
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

func parseRule(word string) (rule Rule, ours bool, err error) {
	fields := strings.Split(word, ":")
	if len(fields) != 4 {
		return Rule{}, false, fmt.Errorf("cannot parse rule %.200q: want 4 fields", word)
	}
	action, amount, ok := strings.Cut(fields[3], "=")
	if !ok {
		return Rule{}, false, fmt.Errorf("cannot parse rule %.200q: no amount", word)
	}
	amount, per, perSaid := strings.Cut(amount, "/")
	n, err := strconv.ParseInt(amount, 10, 64)
	if err != nil {
		return Rule{}, false, fmt.Errorf("cannot parse rule %.200q: amount %w", word, err)
	}
	if fields[0] != "jail" || perSaid && per != "jail" {
		return Rule{}, false, nil
	}
	return Rule{Jail: fields[1], Resource: fields[2], Action: action, Amount: n}, true, nil
}

// Missing returns the rules of want that are not in have, in their order: what to add again after somebody removed rules,
// as "service rctl restart" does with all of the host.
func Missing(want, have []Rule) []Rule {
	known := make(map[Rule]bool, len(have))
	for _, r := range have {
		known[r] = true
	}
	var missing []Rule
	for _, r := range want {
		if !known[r] {
			missing = append(missing, r)
		}
	}
	return missing
}

// Scale returns the limits lowered to what the host can bear: one job's resident memory to half of the host's, and its
// private memory to three fifths. A limit of 0 stays none, and an unknown size of the host (0) changes nothing.
func Scale(l Limits, hostBytes int64) Limits {
	if hostBytes <= 0 {
		return l
	}
	if l.MemoryBytes > 0 {
		l.MemoryBytes = min(l.MemoryBytes, max(1, hostBytes/2))
	}
	if l.SwapBytes > 0 {
		l.SwapBytes = min(l.SwapBytes, max(1, hostBytes/5*3))
	}
	return l
}
