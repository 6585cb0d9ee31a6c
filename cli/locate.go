package cli

import (
	"os"
	"path/filepath"

	"playground/fault"
	"playground/suite"
)

// systemConfig is where a package installs the configuration.
const systemConfig = "/usr/local/etc/playground/playground.toml"

// ConfigPath returns the configuration file to use.
func (e *Env) ConfigPath() (string, error) {
	if e.Config != "" {
		return e.Config, nil
	}
	if path := e.Getenv("PLAYGROUND_CONFIG"); path != "" {
		return path, nil
	}
	if state, err := e.StateDir(); err == nil {
		path := filepath.Join(state, suite.ConfigName)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	if _, err := os.Stat(systemConfig); err == nil {
		return systemConfig, nil
	}
	return "", fault.New(fault.NotFound, "there is no configuration yet").
		WithHint("start the suite with `playground up` in another terminal, or name a file with -c")
}

// StateDir returns the state folder of "playground up" for this user.
func (e *Env) StateDir() (string, error) {
	if dir := e.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "playground"), nil
	}
	if e.Uid == 0 {
		return suite.RootState, nil
	}
	home := e.Getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", fault.New(fault.Invalid, "cannot choose a state folder: HOME is not set").
			WithHint("name one with --state")
	}
	return filepath.Join(home, ".local", "state", "playground"), nil
}
