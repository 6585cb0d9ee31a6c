package config

import "playground/preflight"

// HostChecks says what the host is to be used for, which is what the checks of package preflight ask.
func (c Config) HostChecks() preflight.Options {
	return preflight.Options{
		StateDir: c.Host.StateDir, RunDir: c.Host.RunDir, Isolation: string(c.Sandbox.Isolation),
		DaemonUser: c.Host.DaemonUser, SecurelevelMin: c.Host.SecurelevelMin,
		Storage: string(c.Sandbox.Storage), Dataset: c.Sandbox.Dataset, Quota: c.Sandbox.Quota, DevfsRuleset: c.Sandbox.DevfsRuleset,
	}
}
