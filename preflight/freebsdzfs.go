package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// zfsStorage is what is known of the dataset that sandboxes are made below.
type zfsStorage struct {
	module     error             // of finding zfs in the kernel: nil, ENOENT, or why it could not be asked
	properties map[string]string // of the dataset; none unless the kernel has zfs
	err        error             // why there are none
}

// What a dataset cannot be asked for.
var (
	errNoDataset = errors.New("dataset does not exist")
	errNoAnswer  = errors.New("no answer")
)

const (
	zfsProgram    = "/sbin/zfs"
	zfsPatience   = 10 * time.Second
	zfsProperties = "type,mountpoint,mounted,canmount,jailed,keystatus,encryptionroot,available"
)

// onZFS reports whether sandboxes stand on ZFS.
func (o Options) onZFS() bool { return o.Isolation != isolationNone && o.Storage == storageZFS }

// askZFS reads a dataset's properties with zfs(8), which must not be run before the kernel has zfs: it would load the module.
// On a suspended pool the program hangs in the kernel, where no signal ends it: it is left there, and with it the goroutine
// that waits for it.
func askZFS(ctx context.Context, program, dataset string, patience time.Duration) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	cmd := exec.CommandContext(ctx, program, "get", "-H", "-p", "-o", "property,value", zfsProperties, dataset)
	cmd.Env = []string{"PATH=/sbin:/bin:/usr/sbin:/usr/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	type answer struct {
		out []byte
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		defer cancel()
		out, err := cmd.Output()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errNoAnswer, context.Cause(ctx))
		}
		answered <- answer{out, err}
	}()
	hung := time.NewTimer(patience + 2*cmd.WaitDelay)
	defer hung.Stop()
	select {
	case <-hung.C:
		return nil, fmt.Errorf("%w: it cannot be killed", errNoAnswer)
	case a := <-answered:
		if a.err != nil {
			return nil, zfsError(a.err)
		}
		return parseProperties(a.out)
	}
}

// zfsError prefers what the program said to its exit status.
func zfsError(err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	text, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
	switch {
	case strings.Contains(text, errNoDataset.Error()):
		return errNoDataset
	case text == "":
		return err
	}
	return fmt.Errorf("%.200s", text)
}

// parseProperties reads the output of `zfs get -H -o property,value`: no value of ours holds a tab or a newline.
func parseProperties(out []byte) (map[string]string, error) {
	properties := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		property, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || property == "" {
			return nil, fmt.Errorf("cannot read the output of zfs get: line %.100q", line)
		}
		properties[property] = value
	}
	if properties["type"] == "" {
		return nil, errors.New("cannot read the output of zfs get: it names no type")
	}
	return properties, nil
}

// judgeZFS asks for the module while it can still be loaded: nothing of Playground's loads it, and zfs(8) tries so only when
// the first sandbox is attached, which is too late from securelevel 1 on. A module alone imports no pool: rc(8) does.
func judgeZFS(f freebsdFacts, o Options) Check {
	const name = "zfs"
	const enable = "sysrc zfs_enable=YES && service zpool start && service zfs start"
	z, dataset := f.zfs, o.Dataset
	switch {
	case errors.Is(z.module, fs.ErrNotExist) && f.secureErr == nil && f.secure > 0:
		return fail(name, "sysrc zfs_enable=YES && shutdown -r now", "the kernel lacks zfs, and loads nothing at securelevel %d", f.secure)
	case errors.Is(z.module, fs.ErrNotExist):
		return fail(name, enable, "the kernel lacks zfs, which sandbox.storage asks for")
	case z.module != nil:
		return warn(name, "", "cannot find out whether the kernel has zfs: %v", z.module)
	case errors.Is(z.err, errNoDataset):
		return fail(name, "zfs create -o mountpoint=none "+dataset+" (if its pool is not imported: "+enable+")", "there is no dataset %q", dataset)
	case errors.Is(z.err, errNoAnswer):
		return fail(name, "zpool status -x", "%s does not answer: %v", zfsProgram, z.err)
	case z.err != nil:
		return fail(name, "try zfs get all "+dataset, "dataset %q cannot be asked: %v", dataset, z.err)
	}
	return judgeDataset(name, z.properties, o)
}

// judgeDataset judges the dataset that ours are made below. They have mountpoints of their own, so that it need not be mounted
// itself; but where it holds the state folder, what is seen without it is another, empty one.
func judgeDataset(name string, properties map[string]string, o Options) Check {
	dataset, mountpoint := o.Dataset, properties["mountpoint"]
	switch {
	case properties["type"] != "filesystem":
		return fail(name, "name a filesystem in sandbox.dataset", "dataset %q is a %s", dataset, properties["type"])
	case properties["jailed"] == "on":
		return fail(name, "zfs set jailed=off "+dataset, "dataset %q is given to a jail: the host cannot mount what is below it", dataset)
	case properties["keystatus"] == "unavailable":
		root := properties["encryptionroot"]
		return fail(name, "zfs load-key "+root+" && zfs mount -a", "the key of dataset %q is not loaded", dataset)
	case properties["mounted"] == "no" && properties["canmount"] != "off" && (within(o.StateDir, mountpoint) || within(mountpoint, o.StateDir)):
		return fail(name, "service playground stop; service playground_jaild stop; sysrc zfs_enable=YES; zfs mount "+dataset,
			"dataset %q belongs on %s and is not mounted: the state folder that is seen is not the one on it", dataset, mountpoint)
	}
	free, err := strconv.ParseUint(properties["available"], 10, 64)
	if err != nil {
		return warn(name, "", "the free space of dataset %q is unknown", dataset)
	}
	if free < minFreeBytes {
		return warn(name, "free some space in its pool, or raise its quota: zfs list -o space "+dataset, "dataset %q: %s free", dataset, size(free))
	}
	return pass(name, "dataset %q: %s free", dataset, size(free))
}

// within reports whether path is folder or lies below it.
func within(path, folder string) bool {
	return firstBelow(path, []string{strings.TrimSuffix(folder, "/")}) != "" || folder == "/"
}
