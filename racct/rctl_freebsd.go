package racct

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// maxAnswer bounds what the kernel may answer; it refuses more than kern.racct.rctl.maxbufsize, 16 MiB by default.
const maxAnswer = 16 << 20

// Enabled returns nil when the kernel keeps accounts of jails, and otherwise how to make it.
func Enabled() error {
	_, err := UsageOf("playground-probe")
	return err
}

// Add adds rules, whether or not their jails exist yet. None of them is left when it fails.
func Add(rules ...Rule) error {
	for i, r := range rules {
		if err := validJail(r.Jail); err != nil {
			return err
		}
		if _, err := call(unix.SYS_RCTL_ADD_RULE, r.String(), false); err != nil {
			for _, added := range rules[:i] {
				remove("jail:" + added.Jail + ":" + added.Resource + ":" + added.Action)
			}
			return explain(err, "cannot add limit "+r.Resource)
		}
	}
	return nil
}

// Remove removes the rules that f names; none is no error.
func Remove(f Filter) error {
	if f.text == "" { // would be every rule of the host
		return fault.New(fault.Internal, "internal error: empty filter of limits")
	}
	return remove(f.text)
}

func remove(filter string) error {
	_, err := call(unix.SYS_RCTL_REMOVE_RULE, filter, false)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return explain(err, "cannot remove limits")
	}
	return nil
}

// RulesOf returns the rules of one jail.
func RulesOf(jail string) ([]Rule, error) {
	f, err := All(jail)
	if err != nil {
		return nil, err
	}
	return rulesOf(f.text)
}

// JailRules returns the rules of all jails.
func JailRules() ([]Rule, error) { return rulesOf("jail:") }

func rulesOf(filter string) ([]Rule, error) {
	text, err := call(unix.SYS_RCTL_GET_RULES, filter, true)
	if err != nil {
		return nil, explain(err, "cannot list limits")
	}
	return ParseRules(text)
}

// UsageOf returns what one jail uses; zeros for a jail that does not exist.
func UsageOf(jail string) (Usage, error) {
	if err := validJail(jail); err != nil {
		return nil, err
	}
	text, err := call(unix.SYS_RCTL_GET_RACCT, "jail:"+jail, true)
	if err != nil {
		return nil, explain(err, "cannot get the use of resources")
	}
	return ParseUsage(text)
}

// Reconcile adds the rules of want, all of one jail, that the kernel does not have, and returns them.
func Reconcile(want []Rule) ([]Rule, error) {
	if len(want) == 0 {
		return nil, nil
	}
	have, err := RulesOf(want[0].Jail)
	if err != nil {
		return nil, err
	}
	missing := Missing(want, have)
	return missing, Add(missing...)
}

// call makes one rctl call: all take a text, with its NUL, and answer in a text (rctl_add_rule(2)).
func call(number uintptr, in string, answers bool) (string, error) {
	input, err := unix.ByteSliceFromString(in)
	if err != nil {
		return "", fmt.Errorf("cannot use rule %q: %w", in, err)
	}
	if !answers {
		return "", call4(number, input, nil)
	}
	for size := 4096; ; size *= 2 {
		out := make([]byte, size)
		err := call4(number, input, out)
		if errors.Is(err, unix.ERANGE) && size < maxAnswer {
			continue
		}
		if err != nil {
			return "", err
		}
		text, _, _ := bytes.Cut(out, []byte{0})
		return string(text), nil
	}
}

func call4(number uintptr, in, out []byte) error {
	_, _, errno := unix.Syscall6(number, uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		uintptr(unsafe.Pointer(unsafe.SliceData(out))), uintptr(len(out)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// explain turns the kernel's refusals into what an operator can do about them.
func explain(err error, what string) error {
	if errors.Is(err, unix.ENOSYS) {
		return fault.Wrap(fault.Unavailable, err, "%s: the kernel does not keep accounts of jails", what).
			WithHint("add kern.racct.enable=1 to /boot/loader.conf and restart the host")
	}
	if errors.Is(err, unix.EPERM) {
		return fault.Wrap(fault.Unavailable, err, "%s", what).WithHint("only root of the host itself, not of a jail, may set limits")
	}
	return fault.Wrap(fault.Internal, err, "%s", what)
}
