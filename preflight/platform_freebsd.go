package preflight

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func platform(ctx context.Context, o Options) []Check { return judgeFreeBSD(gather(ctx, o), o) }

func platformSandboxes(ctx context.Context, o Options) []Check {
	return judgeFreeBSDSandboxes(gatherSandboxes(ctx, o), o)
}

// gather finds the facts out.
func gather(ctx context.Context, o Options) freebsdFacts {
	f := gatherSandboxes(ctx, o)
	f.storage, f.now, f.newest = statStorage(o.StateDir), time.Now(), newestIn(o.StateDir)
	// A 1-byte boolean, which the typed calls refuse.
	f.racct, f.racctErr = unix.SysctlRaw("kern.racct.enable")
	if o.DaemonUser != "" {
		_, f.user = user.Lookup(o.DaemonUser)
	}
	if memory, err := unix.SysctlUint64("hw.physmem"); err == nil {
		f.installed = memory
	}
	f.available = availablePages() * uint64(os.Getpagesize())
	f.appendOnly = fmt.Errorf("%w: at this securelevel the probe's file could not be removed", errNotProbed)
	if f.root && !f.permanent() {
		f.appendOnly = probeAppendOnly(o.StateDir)
	}
	return f
}

// gatherSandboxes finds out what judgeFreeBSDSandboxes asks for.
func gatherSandboxes(ctx context.Context, o Options) freebsdFacts {
	f := freebsdFacts{root: os.Geteuid() == 0, modules: make(map[string]error), devfs: readDevfs(o.DevfsRuleset)}
	f.release, f.releaseErr = unix.Sysctl("kern.osrelease")
	var jailed uint32
	jailed, f.jailedErr = unix.SysctlUint32("security.jail.jailed")
	f.jailed = jailed != 0
	var level uint32
	level, f.secureErr = unix.SysctlUint32("kern.securelevel")
	f.secure = int(int32(level)) // -1 is a level
	for _, module := range modules() {
		f.modules[module] = findModule(module)
	}
	if o.onZFS() {
		f.zfs.module = findModule("zfs")
		if f.zfs.module == nil {
			f.zfs.properties, f.zfs.err = askZFS(ctx, zfsProgram, o.Dataset, zfsPatience)
		}
	}
	return f
}

// availablePages counts the pages that can be had without writing any out; 0 means unknown.
func availablePages() uint64 {
	var sum uint64
	for _, name := range []string{"vm.stats.vm.v_free_count", "vm.stats.vm.v_inactive_count"} {
		pages, err := unix.SysctlUint32(name)
		if err != nil {
			return 0
		}
		sum += uint64(pages)
	}
	return sum
}

// findModule looks for a module by modfind(2), which finds those compiled into the kernel, too.
func findModule(name string) error {
	text, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_MODFIND, uintptr(unsafe.Pointer(text)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// struct devfs_rule and the request that reads the rule after a given one (sys/fs/devfs/devfs.h).
const (
	ruleSize    = 236
	ruleMagic   = 0xdb0a087a
	ruleID      = 4   // ruleset<<16 | rule
	ruleConds   = 8   // 0: matches every node
	ruleActs    = 216 // 1: ruleHide is set
	ruleHide    = 220 // 1: hide
	nextRule    = 0xc0000000 | ruleSize<<16 | 'D'<<8 | 4
	firstInRule = 0
)

// readDevfs reads the first rule of a ruleset.
func readDevfs(number int) devfs {
	if number == 0 {
		number = ownRuleset
	}
	dev, err := os.Open("/dev")
	if err != nil {
		return devfs{err: err}
	}
	defer func() { _ = dev.Close() }() // only asked
	var rule [ruleSize]byte
	e := binary.NativeEndian
	e.PutUint32(rule[0:], ruleMagic)
	e.PutUint32(rule[ruleID:], uint32(number)<<16|firstInRule)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dev.Fd(), nextRule, uintptr(unsafe.Pointer(&rule[0])))
	switch {
	case errno == unix.ENOENT:
		return devfs{}
	case errno != 0:
		return devfs{err: errno}
	}
	hides := e.Uint32(rule[ruleConds:]) == 0 && e.Uint32(rule[ruleActs:])&1 != 0 && e.Uint32(rule[ruleHide:])&1 != 0
	return devfs{exists: true, hides: hides}
}

// sfAppend is SF_APPEND (sappnd) of sys/stat.h.
const sfAppend = 0x40000

// probeAppendOnly tries sappnd on a file of its own in dir, which it always removes. It must not run at securelevel 1.
func probeAppendOnly(dir string) (err error) {
	f, err := os.CreateTemp(dir, ".preflight-*")
	if err != nil {
		return fmt.Errorf("%w: %w", errNotProbed, err)
	}
	fd := int(f.Fd())
	defer func() {
		clearErr := unix.Fchflags(fd, 0)
		_ = f.Close() // nothing of worth was written
		err = errors.Join(err, clearErr, os.Remove(f.Name()))
	}()
	if _, err := f.WriteString("old"); err != nil {
		return fmt.Errorf("%w: %w", errNotProbed, err)
	}
	if err := unix.Fchflags(fd, sfAppend); err != nil {
		return fmt.Errorf("cannot set sappnd on %q: %w", f.Name(), err)
	}
	other, err := os.OpenFile(f.Name(), os.O_WRONLY, 0)
	if err == nil {
		_ = other.Close() // nothing was written
		return errDecorative
	}
	// A file that is open for appending must not become one that is open for anything else.
	other, err = os.OpenFile(f.Name(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("cannot append to an append-only file: %w", err)
	}
	defer func() { _ = other.Close() }() // what it wrote is thrown away
	if _, err := unix.FcntlInt(other.Fd(), unix.F_SETFL, 0); err != nil {
		return nil // it cannot be lifted at all
	}
	if _, err := unix.Pwrite(int(other.Fd()), []byte("new"), 0); err == nil {
		return errDecorative
	}
	if err := other.Truncate(0); err == nil {
		return errDecorative
	}
	return nil
}

func statStorage(dir string) storage {
	s, nearest := locate(dir)
	if s.err != nil {
		return s
	}
	var fs unix.Statfs_t
	if s.err = unix.Statfs(nearest, &fs); s.err == nil {
		s.freeBytes = uint64(max(fs.Bavail, 0)) * fs.Bsize // Bavail is negative in the reserve
		s.noexec = fs.Flags&unix.MNT_NOEXEC != 0
		s.fstype = unix.ByteSliceToString(fs.Fstypename[:])
	}
	return s
}
