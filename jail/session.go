package jail

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"playground/fault"
)

// Bounds of a session's options, in bytes.
const (
	maxCwd = 4096
	maxEnv = 32 << 10
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Validate returns an error for options that no sandbox could take.
func (o OpenOptions) Validate() error {
	if o.Cwd != "" && (!strings.HasPrefix(o.Cwd, "/") || len(o.Cwd) > maxCwd || strings.ContainsRune(o.Cwd, 0)) {
		return fault.New(fault.Invalid, "cwd is not valid").WithHint("give an absolute path inside the sandbox, at most %d bytes, without NUL", maxCwd)
	}
	total := 0
	for name, value := range o.Env {
		if !envName.MatchString(name) {
			return fault.New(fault.Invalid, "environment name %.64q is not valid", name).WithHint("use letters, digits and _, not beginning with a digit")
		}
		if strings.ContainsRune(value, 0) {
			return fault.New(fault.Invalid, "the value of environment variable %s holds a NUL byte", name)
		}
		total += len(name) + len(value) + 2
	}
	if total > maxEnv {
		return fault.New(fault.TooLarge, "the environment is %d bytes, over the limit of %d", total, maxEnv).WithHint("write large values to a file and pass its path")
	}
	return nil
}

// environment is what every command of the tenant sees: the fixed part, then the session's, which wins.
func (m *Manager) environment(t *tenant) []string {
	env := map[string]string{
		"HOME":            m.home(t.rec),
		"USER":            t.rec.Tenant,
		"LOGNAME":         t.rec.Tenant,
		"SHELL":           "/bin/sh",
		"PATH":            m.opts.Path,
		"LANG":            m.opts.Lang,
		"PILE":            m.pilePath(t.rec, "self.pile"),
		"TRIBLESPACE_KEY": m.pilePath(t.rec, "self.key"),
		"PERSONA":         t.rec.Persona,
	}
	maps.Copy(env, t.env)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// Where isolation is "none" a command sees the host's paths, because there is no other root.

func (m *Manager) home(rec record) string {
	if m.opts.Isolation == IsolationNone {
		return m.store.path(rec.ID, "home")
	}
	return "/home/" + rec.Tenant
}

func (m *Manager) workspace(rec record) string {
	if m.opts.Isolation == IsolationNone {
		return m.store.path(rec.ID, "workspace")
	}
	return "/workspace"
}

func (m *Manager) pilePath(rec record, name string) string {
	if m.opts.Isolation == IsolationNone {
		return m.store.pile(rec.ID) + "/" + name
	}
	return "/pile/" + name
}
