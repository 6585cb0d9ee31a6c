package jail

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// The layout of struct devfs_rule (sys/fs/devfs/devfs.h), shared by kernel and programs as it is, 236 bytes on all machines.
const (
	devfsRuleSize = 236
	devfsMagic    = 0xdb0a087a
	devfsMaxPath  = 200

	devfsOffID    = 4   // ruleset<<16 | rule
	devfsOffConds = 8   // 2: match dr_pathptrn
	devfsOffPath  = 16  // 200 bytes
	devfsOffActs  = 216 // 1: dr_bacts is set
	devfsOffBacts = 220 // 1: hide, 2: unhide
	devfsOffIncl  = 234 // u16

	devfsCondPath = 2
	devfsActBool  = 1
	devfsHide     = 1
	devfsUnhide   = 2
)

// ownRuleset is the ruleset that jaild makes for its jails; "pg" in ASCII. The base system's ruleset 4 shows /dev/zfs and
// /dev/fuse, and exists only where rc.conf asks for it.
const ownRuleset = 0x7067

// visible are the devices of a jail, as patterns of devfs(8): * does not match a slash.
var visible = [...]string{
	"null", "zero", "full", "random", "urandom", "fd", "fd/*", "stdin", "stdout", "stderr", "ptmx", "pts", "pts/*", "tty",
}

// A devfsRule is one rule of a ruleset. Only what our rulesets need is told apart; raw is what the kernel keeps.
type devfsRule struct {
	number uint16
	raw    [devfsRuleSize]byte
}

// newDevfsRule hides or shows what the pattern matches; an empty pattern matches everything.
func newDevfsRule(set, number uint16, pattern string, action uint32) (devfsRule, error) {
	r := devfsRule{number: number}
	if len(pattern) >= devfsMaxPath {
		return r, fmt.Errorf("devfs pattern %.64q is too long", pattern)
	}
	e := binary.NativeEndian
	e.PutUint32(r.raw[0:], devfsMagic)
	e.PutUint32(r.raw[devfsOffID:], uint32(set)<<16|uint32(number))
	if pattern != "" {
		e.PutUint32(r.raw[devfsOffConds:], devfsCondPath)
		copy(r.raw[devfsOffPath:], pattern)
	}
	e.PutUint32(r.raw[devfsOffActs:], devfsActBool)
	e.PutUint32(r.raw[devfsOffBacts:], action)
	return r, nil
}

// hidesAll reports whether the rule hides every node.
func (r devfsRule) hidesAll() bool {
	e := binary.NativeEndian
	return e.Uint32(r.raw[devfsOffConds:]) == 0 && e.Uint32(r.raw[devfsOffActs:])&devfsActBool != 0 &&
		e.Uint32(r.raw[devfsOffBacts:])&devfsHide != 0
}

// ownRules hide everything and then show what a jail needs.
func ownRules() ([]devfsRule, error) {
	first, err := newDevfsRule(ownRuleset, 100, "", devfsHide)
	if err != nil {
		return nil, err
	}
	rules := []devfsRule{first}
	for i, pattern := range visible {
		r, err := newDevfsRule(ownRuleset, uint16(200+100*i), pattern, devfsUnhide)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// reconcile says which rules to delete and which to add so that a ruleset becomes want. A changed rule is deleted and added
// at its place in the order of numbers, and rules of others go last, so that "hide" is never missing for longer than one call.
func reconcile(have, want []devfsRule) []devfsChange {
	var changes []devfsChange
	for _, w := range want {
		i := slices.IndexFunc(have, func(h devfsRule) bool { return h.number == w.number })
		if i >= 0 && have[i].raw == w.raw {
			continue
		}
		if i >= 0 {
			changes = append(changes, devfsChange{rule: have[i], remove: true})
		}
		changes = append(changes, devfsChange{rule: w})
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w devfsRule) bool { return w.number == h.number }) {
			changes = append(changes, devfsChange{rule: h, remove: true})
		}
	}
	return changes
}

type devfsChange struct {
	rule   devfsRule
	remove bool
}

// harmless are the nodes that may be seen in a jail's /dev: ours, and what the base system's ruleset 4 adds that gives
// nothing away. Everything else is a reason to refuse the mount.
func harmless(node string) bool {
	if slices.Contains([]string{"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "ptmx", "pts", "tty", "log", "crypto"}, node) {
		return true
	}
	// The old pseudoterminals: pty and tty, one letter of the bank, one of the unit.
	rest, pty := strings.CutPrefix(node, "pty")
	if !pty {
		rest, pty = strings.CutPrefix(node, "tty")
	}
	return pty && len(rest) == 2 && strings.ContainsRune("pqrsPQRSlmnoLMNO", rune(rest[0]))
}

// exposed picks the nodes of a jail's /dev that must not be there.
func exposed(nodes []string) []string {
	var bad []string
	for _, node := range nodes {
		if !harmless(node) {
			bad = append(bad, node)
		}
	}
	slices.Sort(bad)
	return bad
}
