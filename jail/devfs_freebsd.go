package jail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// Requests of sys/fs/devfs/devfs.h, group 'D'; the size of the argument is in bits 16 to 28 (sys/ioccom.h).
const (
	devfsioRAdd     = 0xc0000000 | devfsRuleSize<<16 | 'D'<<8
	devfsioRDel     = 0x80000000 | 4<<16 | 'D'<<8 | 1
	devfsioRGetNext = 0xc0000000 | devfsRuleSize<<16 | 'D'<<8 | 4
)

func devfsCall(dev *os.File, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dev.Fd(), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// ruleset makes sure that a devfs ruleset exists before anything is mounted with it: the kernel takes any number, and
// one without rules hides nothing. Our own is made as it should be; another's must begin by hiding everything.
func (freebsd) ruleset(number int) error {
	if number <= 0 || number > 0xffff {
		return fault.New(fault.Invalid, "devfs ruleset %d is not valid", number).WithHint("use 1 to 65535")
	}
	dev, err := os.Open("/dev")
	if err != nil {
		return fmt.Errorf("cannot ask for devfs rules: %w", err)
	}
	defer dev.Close()
	have, err := readRuleset(dev, uint16(number))
	if err != nil {
		return fmt.Errorf("cannot read devfs ruleset %d: %w", number, err)
	}
	if number != ownRuleset {
		return judgeRuleset(number, have)
	}
	want, err := ownRules()
	if err != nil {
		return err
	}
	for _, c := range reconcile(have, want) {
		rule := c.rule.raw // the kernel writes into it
		if c.remove {
			err = devfsCall(dev, devfsioRDel, unsafe.Pointer(&rule[devfsOffID]))
		} else {
			err = devfsCall(dev, devfsioRAdd, unsafe.Pointer(&rule[0]))
		}
		// Another sandbox may be attached at the same time and do the same; what comes of it is looked at below.
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("cannot change rule %d of devfs ruleset %d: %w", c.rule.number, number, err)
		}
	}
	if have, err = readRuleset(dev, uint16(number)); err != nil || len(reconcile(have, want)) > 0 {
		return fault.New(fault.Unavailable, "devfs ruleset %d could not be set up", number).WithHint("somebody else changes it: see `devfs rule -s %d show`", number)
	}
	return nil
}

// judgeRuleset accepts a ruleset of the operator's that hides something at all. What it shows is looked at once mounted.
func judgeRuleset(number int, rules []devfsRule) error {
	if len(rules) == 0 {
		return fault.New(fault.Unavailable, "devfs ruleset %d does not exist, so it would hide nothing", number).
			WithHint("add it to /etc/devfs.rules, set devfs_load_rulesets=YES in /etc/rc.conf, and run `service devfs restart`")
	}
	return nil
}

func readRuleset(dev *os.File, set uint16) ([]devfsRule, error) {
	var rules []devfsRule
	for last := uint16(0); ; {
		var raw [devfsRuleSize]byte
		binary.NativeEndian.PutUint32(raw[0:], devfsMagic)
		binary.NativeEndian.PutUint32(raw[devfsOffID:], uint32(set)<<16|uint32(last))
		err := devfsCall(dev, devfsioRGetNext, unsafe.Pointer(&raw[0]))
		if errors.Is(err, unix.ENOENT) {
			return rules, nil
		}
		if err != nil {
			return nil, err
		}
		last = uint16(binary.NativeEndian.Uint32(raw[devfsOffID:]))
		rules = append(rules, devfsRule{number: last, raw: raw})
	}
}

// devices looks at a jail's /dev as it was mounted.
func (freebsd) devices(root string) error {
	dir := filepath.Join(root, "dev")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot look at the jail's devices: %w", err)
	}
	var nodes []string
	for _, e := range entries {
		nodes = append(nodes, e.Name())
	}
	if bad := exposed(nodes); len(bad) > 0 {
		return fault.New(fault.Unavailable, "the devfs ruleset shows %s to the jail", strings.Join(bad[:min(len(bad), 8)], ", ")).
			WithHint("leave the ruleset unset in the configuration, or hide these devices in /etc/devfs.rules")
	}
	return nil
}
