package jail

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// cDevfsRule is struct devfs_rule of sys/fs/devfs/devfs.h in Go, to check the offsets against.
type cDevfsRule struct {
	magic, id       uint32
	icond, dswflags int32
	path            [200]byte
	iacts, bacts    int32
	uid, gid        uint32
	mode, incset    uint16
}

func TestDevfsRuleLayout(t *testing.T) {
	var r cDevfsRule
	for name, c := range map[string][2]uintptr{
		"size":   {unsafe.Sizeof(r), devfsRuleSize},
		"magic":  {unsafe.Offsetof(r.magic), 0},
		"flags":  {unsafe.Offsetof(r.dswflags), devfsOffConds + 4},
		"uid":    {unsafe.Offsetof(r.uid), devfsOffBacts + 4},
		"gid":    {unsafe.Offsetof(r.gid), devfsOffBacts + 8},
		"mode":   {unsafe.Offsetof(r.mode), devfsOffIncl - 2},
		"id":     {unsafe.Offsetof(r.id), devfsOffID},
		"icond":  {unsafe.Offsetof(r.icond), devfsOffConds},
		"path":   {unsafe.Offsetof(r.path), devfsOffPath},
		"iacts":  {unsafe.Offsetof(r.iacts), devfsOffActs},
		"bacts":  {unsafe.Offsetof(r.bacts), devfsOffBacts},
		"incset": {unsafe.Offsetof(r.incset), devfsOffIncl},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %d, want %d", name, c[1], c[0])
		}
	}
}

func TestDevfsRuleBytes(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the bytes below are little-endian")
	}
	r, err := newDevfsRule(0x7067, 200, "null", devfsUnhide)
	if err != nil {
		t.Fatal(err)
	}
	want := "7a080adb" + "c8006770" + "02000000" + "00000000" + hex.EncodeToString([]byte("null")) + strings.Repeat("00", 196) +
		"01000000" + "02000000" + strings.Repeat("00", 12)
	if diff := cmp.Diff(want, hex.EncodeToString(r.raw[:])); diff != "" {
		t.Errorf("unhide null (-want +got):\n%s", diff)
	}
	if _, err := newDevfsRule(1, 1, strings.Repeat("x", 200), devfsHide); err == nil {
		t.Error("a pattern without room for its NUL is accepted")
	}
}

// apply does to a ruleset what the kernel would.
func apply(t *testing.T, have []devfsRule, changes []devfsChange) []devfsRule {
	t.Helper()
	have = slices.Clone(have)
	hid := slices.ContainsFunc(have, devfsRule.hidesAll)
	for i, c := range changes {
		at := slices.IndexFunc(have, func(r devfsRule) bool { return r.number == c.rule.number })
		switch {
		case c.remove && at < 0:
			t.Fatalf("rule %d is deleted and not there", c.rule.number)
		case c.remove:
			have = slices.Delete(have, at, at+1)
		case at >= 0:
			t.Fatalf("rule %d is added twice: EEXIST", c.rule.number)
		default:
			have = append(have, c.rule)
		}
		// Once everything is hidden it stays so, but for the call after the deletion of that very rule.
		if hid && !slices.ContainsFunc(have, devfsRule.hidesAll) && (i+1 == len(changes) || changes[i+1].remove) {
			t.Errorf("after change %d nothing is hidden", i)
		}
	}
	slices.SortFunc(have, func(a, b devfsRule) int { return int(a.number) - int(b.number) })
	return have
}

func TestReconcileRuleset(t *testing.T) {
	want, err := ownRules()
	if err != nil {
		t.Fatal(err)
	}
	if !want[0].hidesAll() || slices.ContainsFunc(want[1:], devfsRule.hidesAll) {
		t.Error("our ruleset does not begin by hiding everything")
	}
	other, err := newDevfsRule(ownRuleset, 150, "mem", devfsUnhide)
	if err != nil {
		t.Fatal(err)
	}
	changed := slices.Clone(want)
	changed[0].raw[devfsOffBacts] = devfsUnhide
	for name, have := range map[string][]devfsRule{
		"none":     nil,
		"ours":     want,
		"more":     append(slices.Clone(want), other),
		"other":    {other},
		"changed":  changed,
		"part":     want[2:],
		"half-way": want[:3],
	} {
		changes := reconcile(have, want)
		if name == "ours" && len(changes) > 0 {
			t.Errorf("changes of what is right: %v", changes)
		}
		got := apply(t, have, changes)
		if !slices.EqualFunc(got, want, func(a, b devfsRule) bool { return a.raw == b.raw }) {
			t.Errorf("%s: %d rules, want %d", name, len(got), len(want))
		}
	}
}

func TestExposedDevices(t *testing.T) {
	fine := []string{"null", "zero", "random", "urandom", "fd", "stdin", "stdout", "stderr", "pts", "ptmx", "tty", "log", "crypto", "ptyp0", "ttyv"[:3] + "p5", "ttySf", "full"}
	if bad := exposed(fine); len(bad) > 0 {
		t.Errorf("harmless: %q", bad)
	}
	hostile := []string{"mem", "kmem", "io", "pci", "klog", "bpf", "bpf0", "zfs", "fuse", "ada0", "da0p1", "md0", "geom.ctl", "devctl", "ttyv0", "ttyu0", "console", "pf", "kvm", "vmm", "dri", "ttyx0", "pty", "ptyp00", "nullx", "mdctl", "consolectl", "sndstat", "usbctl", "xpt0", "pass0", "nvme0"}
	if bad := exposed(append(hostile, fine...)); len(bad) != len(hostile) {
		t.Errorf("exposed: %q", bad)
	}
}
