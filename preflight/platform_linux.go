package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func platform(ctx context.Context, o Options) []Check { return judgeLinux(gather(ctx, o), o) }

func platformSandboxes(ctx context.Context, o Options) []Check {
	return judgeLinuxSandboxes(gatherSandboxes(ctx, o), o)
}

// gather finds the facts out. What cannot be read is left empty, which judges to a warning.
func gather(ctx context.Context, o Options) linuxFacts {
	f := gatherSandboxes(ctx, o)
	f.memory = available(text("/proc/meminfo"))
	f.storage = statStorage(o.StateDir)
	f.now, f.newest = time.Now(), newestIn(o.StateDir)
	f.cgroup = ownCgroup()
	f.appendOnly = probeAppendOnly(o.StateDir)
	return f
}

// gatherSandboxes finds out what judgeLinuxSandboxes asks for.
func gatherSandboxes(ctx context.Context, o Options) linuxFacts {
	f := linuxFacts{
		root:     os.Geteuid() == 0,
		kernel:   kernelRelease(),
		settings: settings(),
		seccomp:  unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0),
	}
	f.seccompFilter = field(text("/proc/self/status"), "Seccomp") == "2"
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	f.undumpable = err == nil && dumpable != 1
	if o.Isolation == isolationNone {
		return f
	}
	const six = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	f.userNS = startIn(ctx, unix.CLONE_NEWUSER, "true")
	if f.userNS == nil {
		f.namespaces = startIn(ctx, six, "true")
	}
	if f.userNS == nil && f.namespaces == nil {
		// mount(8) as the first process of a new pid namespace does what a job's init does.
		f.procMount = startIn(ctx, six, "mount", "-n", "-t", "proc", "proc", "/proc")
	}
	return f
}

// text reads a file of /proc; a missing one is empty.
func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// settings reads the sysctls that govern namespaces.
func settings() map[string]int64 {
	all := make(map[string]int64)
	names := []string{unprivilegedClone, apparmorRestrict}
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
		names = append(names, "user.max_"+kind+"_namespaces")
	}
	for _, name := range names {
		path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		if v, err := strconv.ParseInt(strings.TrimSpace(text(path)), 10, 64); err == nil {
			all[name] = v
		}
	}
	return all
}

// startIn runs a program of the host in new namespaces, as their root, and returns why that failed.
func startIn(ctx context.Context, flags uintptr, name string, args ...string) error {
	path := ""
	for _, dir := range []string{"/usr/bin/", "/bin/"} {
		if unix.Access(dir+name, unix.X_OK) == nil {
			path = dir + name
			break
		}
	}
	if path == "" {
		return fmt.Errorf("%w: there is no %s program", errNotProbed, name)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errNotProbed, context.Cause(ctx))
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok && len(out) > 0 {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return errors.New(first) // what mount(8) says is better than its exit status
	}
	return err
}

// ownCgroup looks at this process's cgroup.
func ownCgroup() cgroup {
	dir, root := cgroupDir(text("/proc/self/mountinfo"), text("/proc/self/cgroup"))
	if dir == "" {
		return cgroup{}
	}
	return cgroup{
		dir:         dir,
		writable:    unix.Access(dir, unix.W_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil,
		available:   strings.Fields(text(filepath.Join(root, "cgroup.controllers"))),
		controllers: strings.Fields(text(filepath.Join(dir, "cgroup.controllers"))),
	}
}

func statStorage(dir string) storage {
	s, nearest := locate(dir)
	if s.err != nil {
		return s
	}
	var fs unix.Statfs_t
	if s.err = unix.Statfs(nearest, &fs); s.err == nil {
		s.freeBytes = fs.Bavail * uint64(fs.Bsize)
		s.noexec = fs.Flags&unix.ST_NOEXEC != 0
	}
	return s
}

// appendFlag is FS_APPEND_FL of linux/fs.h, what chattr +a sets.
const appendFlag = 0x20

// probeAppendOnly tries the append-only attribute on a file of its own in dir, which it always removes.
func probeAppendOnly(dir string) (err error) {
	f, err := os.CreateTemp(dir, ".preflight-*")
	if err != nil {
		return fmt.Errorf("%w: %w", errNotProbed, err)
	}
	defer func() {
		_ = f.Close() // nothing was written
		if removeErr := os.Remove(f.Name()); removeErr != nil {
			err = errors.Join(err, removeErr)
		}
	}()
	fd := int(f.Fd())
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return fmt.Errorf("cannot read the attributes of %q: %w", f.Name(), err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|appendFlag); err != nil {
		return fmt.Errorf("cannot set the append-only attribute of %q: %w", f.Name(), err)
	}
	// An append-only file cannot be opened for other writing; some filesystems take the flag and forget it.
	other, openErr := os.OpenFile(f.Name(), os.O_WRONLY, 0)
	if openErr == nil {
		_ = other.Close() // nothing was written
		err = errors.New("the filesystem takes the append-only attribute and does not enforce it")
	}
	if clearErr := unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags); clearErr != nil {
		err = errors.Join(err, fmt.Errorf("cannot clear the append-only attribute of %q: %w", f.Name(), clearErr))
	}
	return err
}
