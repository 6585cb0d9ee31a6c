package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"playground/fault"
)

// A runner runs a program of the host with arguments, never a shell, and returns what it printed.
type runner func(ctx context.Context, path string, args ...string) ([]byte, error)

// runTimeout bounds a host program that a request waits for; zfs(8) can wait for a busy pool.
const runTimeout = 2 * time.Minute

// killTime is what a killed program may take to be gone.
const killTime = 5 * time.Second

// runProgram is the runner of requests.
func runProgram(ctx context.Context, path string, args ...string) ([]byte, error) {
	out, err := within(ctx, runTimeout, killTime, func(ctx context.Context) ([]byte, error) { return runLong(ctx, path, args...) })
	if errors.Is(err, errStuck) {
		err = fmt.Errorf("cannot run %s %s: %w", path, strings.Join(args, " "), err)
	}
	return out, err
}

// errStuck is a program that hangs in the kernel.
var errStuck = errors.New("it has no end and cannot be killed; is its pool suspended? (zpool status)")

// within ends f's context after a time, and no longer waits for f when that does not help: on a suspended pool zfs(8) hangs where no
// signal reaches it, and would keep its request, and the tenant's lock with it. It is left there.
func within(ctx context.Context, limit, grace time.Duration, f func(context.Context) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	type result struct {
		out []byte
		err error
	}
	ended := make(chan result, 1)
	go func() {
		defer cancel()
		out, err := f(ctx)
		ended <- result{out, err}
	}()
	hung := time.NewTimer(limit + grace)
	defer hung.Stop()
	select {
	case r := <-ended:
		return r.out, r.err
	case <-hung.C:
		return nil, errStuck
	}
}

// runLong is the runner of what the operator waits for, such as unpacking a system.
func runLong(ctx context.Context, path string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=/sbin:/bin:/usr/sbin:/usr/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("cannot run %s %s: %w: %.300s", path, strings.Join(args, " "), err, text)
	}
	return stdout.Bytes(), nil
}

// The user properties that mark what is ours. Datasets inherit user properties, so only a local value counts.
const (
	propTenant   = "playground:tenant"
	propTemplate = "playground:template"
)

const zfsProgram = "/sbin/zfs"

// A zfsProp is one line of `zfs get -H -p -o name,property,value,source`.
type zfsProp struct {
	dataset, property, value, source string
}

// parseZfsGet reads the output of `zfs get -H -p -o name,property,value,source`. Values hold no tab and no newline: zfs(8)
// refuses them in names, and our user properties never have them.
func parseZfsGet(out []byte) ([]zfsProp, error) {
	var props []zfsProp
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		f := strings.Split(line, "\t")
		if len(f) != 4 || f[0] == "" || f[1] == "" {
			return nil, fmt.Errorf("cannot read the output of zfs get: line %.200q", line)
		}
		props = append(props, zfsProp{f[0], f[1], f[2], f[3]})
	}
	return props, nil
}

// A dataset is what decides whether a dataset may be destroyed.
type dataset struct {
	name       string
	kind       string // filesystem, volume, snapshot
	mountpoint string
	mounted    bool
	origin     string
	tenant     string // propTenant where it is local, else ""
	template   string // propTemplate likewise
}

// zfsProperties are what datasets is made from.
const zfsProperties = "type,mountpoint,mounted,origin," + propTenant + "," + propTemplate

// datasets gathers properties by dataset, in the order of the output: a parent comes before what is below it.
func datasets(props []zfsProp) []dataset {
	var list []dataset
	for _, p := range props {
		if len(list) == 0 || list[len(list)-1].name != p.dataset {
			list = append(list, dataset{name: p.dataset})
		}
		d := &list[len(list)-1]
		switch p.property {
		case "type":
			d.kind = p.value
		case "mountpoint":
			d.mountpoint = p.value
		case "mounted":
			d.mounted = p.value == "yes"
		case "origin":
			d.origin = p.value
		case propTenant:
			if p.source == "local" {
				d.tenant = p.value
			}
		case propTemplate:
			if p.source == "local" {
				d.template = p.value
			}
		}
	}
	return list
}

// A zfs runs zfs(8) below one dataset of the operator's.
type zfs struct {
	run    runner
	parent string // "zroot/playground"
}

// get describes a dataset and all below it, snapshots and volumes too. None is fault.NotFound.
func (z zfs) get(ctx context.Context, name string) ([]dataset, error) {
	out, err := z.run(ctx, zfsProgram, "get", "-H", "-p", "-r", "-t", "filesystem,volume,snapshot", "-o", "name,property,value,source", zfsProperties, name)
	if err != nil {
		if strings.Contains(err.Error(), "does not exist") {
			return nil, fault.Wrap(fault.NotFound, err, "there is no dataset %q", name)
		}
		return nil, err
	}
	props, err := parseZfsGet(out)
	if err != nil {
		return nil, err
	}
	list := datasets(props)
	if len(list) == 0 || list[0].name != name {
		return nil, fmt.Errorf("cannot read the output of zfs get: %q is not in it", name)
	}
	return list, nil
}

// clone makes a tenant's dataset from a template's snapshot. It is not mounted, at boot neither. What it would inherit from the
// operator's dataset must not make it read-only, or keep its programs from running.
func (z zfs) clone(ctx context.Context, template, id, tenant, mountpoint string, quota int64) error {
	args := []string{
		"clone", "-o", "canmount=noauto", "-o", "mountpoint=" + mountpoint, "-o", "setuid=off", "-o", "exec=on", "-o", "readonly=off",
		"-o", propTenant + "=" + tenant,
	}
	if quota > 0 {
		args = append(args, "-o", "refquota="+strconv.FormatInt(quota, 10))
	}
	_, err := z.run(ctx, zfsProgram, append(args, z.snapshot(template), z.sandbox(id))...)
	if err != nil && quota > 0 && strings.Contains(err.Error(), "space") {
		return fault.Wrap(fault.Unavailable, err, "cannot make the sandbox's dataset").
			WithHint("if the pool has room, then sandbox.quota is too small: it counts the template's bytes too (zfs get referenced %s)", z.snapshot(template))
	}
	return err
}

func (z zfs) sandbox(id string) string        { return z.parent + "/sandboxes/" + id }
func (z zfs) template(name string) string     { return z.parent + "/templates/" + name }
func (z zfs) snapshot(template string) string { return z.template(template) + "@base" }

// destroySandbox destroys a tenant's dataset, and refuses one that is not recognisably ours. A missing one is no error. The
// commands have neither -r nor -f: what is unexpected stays and is an error.
func (z zfs) destroySandbox(ctx context.Context, id, mountpoint string) error {
	name := z.sandbox(id)
	list, err := z.get(ctx, name)
	if errors.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := z.judge(list, id, mountpoint); err != nil {
		return fault.Wrap(fault.Denied, err, "dataset %q is not destroyed", name).WithHint("look at it with: zfs get all %s", name)
	}
	if list[0].mounted {
		if _, err := z.run(ctx, zfsProgram, "unmount", name); err != nil {
			return err
		}
	}
	_, err = z.run(ctx, zfsProgram, "destroy", name)
	return err
}

// judge says why what get returned is not a sandbox of ours that can go, or nil.
func (z zfs) judge(list []dataset, id, mountpoint string) error {
	d := list[0]
	switch {
	case !validID(id) || d.name != z.sandbox(id):
		return fmt.Errorf("its name is not a sandbox's")
	case d.kind != "filesystem":
		return fmt.Errorf("it is a %s", d.kind)
	case d.tenant == "":
		return fmt.Errorf("its property %s is not set on it", propTenant)
	case !strings.HasPrefix(d.origin, z.parent+"/templates/"):
		return fmt.Errorf("it is no clone of a template")
	case d.mountpoint != mountpoint:
		return fmt.Errorf("its mountpoint is %q", d.mountpoint)
	case len(list) > 1:
		return fmt.Errorf("there is %s %q below it", list[1].kind, list[1].name)
	}
	return nil
}

// validDataset accepts what zfs(8) takes as the name of a filesystem, and nothing that could be read as an option.
func validDataset(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") != "" || part[0] == '-' || strings.Trim(part, ".") == "" {
			return fault.New(fault.Invalid, "dataset %.64q is not valid", name).WithHint("name a dataset for Playground, such as zroot/playground")
		}
	}
	if len(name) > 200 {
		return fault.New(fault.Invalid, "dataset %.64q is too long", name)
	}
	return nil
}
