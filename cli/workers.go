package cli

import (
	"crypto/subtle"
	"fmt"
	"slices"

	"playground/config"
	"playground/faculty"
	"playground/fault"
	"playground/gateway"
	"playground/preflight"
)

// workerChecks looks at the manifest of native workers and the files that it names, as playgroundd will find them.
func workerChecks(c config.Config) []preflight.Check {
	if c.HTTP.Catalogue != config.CatalogueWorkers {
		return nil
	}
	m, err := manifest(c)
	if err != nil {
		return []preflight.Check{{Name: "gateway manifest", Status: preflight.Fail, Detail: err.Error(), Remedy: fault.HintOf(err)}}
	}
	return []preflight.Check{{Name: "gateway manifest", Status: preflight.Pass, Detail: fmt.Sprintf("%d tenants have a native worker", len(m.Workers()))}}
}

// manifest reads the gateway's manifest as playgroundd does.
func manifest(c config.Config) (gateway.Manifest, error) {
	m, err := gateway.Load(c.Gateway.Manifest, func(path string, most int64) ([]byte, error) {
		return config.PrivateFileOf(path, most, c.TransportUser())
	})
	if err != nil {
		return m, err
	}
	return m, gateway.RefuseOwn(m, c.HTTP.Listen, c.HTTP.MetricsListen)
}

// disagreements says where the gateway would not find the workers that are defined. A tenant whose worker somebody else keeps is none.
func disagreements(c config.Config, m gateway.Manifest, defs []faculty.Definition) (wrong []string) {
	for _, w := range m.Workers() {
		at := slices.IndexFunc(defs, func(d faculty.Definition) bool { return d.Address == w.Address })
		own := slices.IndexFunc(defs, func(d faculty.Definition) bool { return d.Tenant == w.Tenant })
		switch {
		case at >= 0 && defs[at].Tenant != w.Tenant:
			wrong = append(wrong, fmt.Sprintf("gateway.manifest sends tenant %s to %s, which is the worker %s", w.Tenant, w.Address, defs[at].ID()))
		case at >= 0 && !sameToken(c, w.TokenFile, defs[at].TokenFile):
			wrong = append(wrong, fmt.Sprintf("worker %s: gateway.manifest has another token for it", defs[at].ID()))
		case at < 0 && own >= 0:
			wrong = append(wrong, fmt.Sprintf("gateway.manifest sends tenant %s to %s, but worker %s is at %s", w.Tenant, w.Address, defs[own].ID(), defs[own].Address))
		}
	}
	return wrong
}

// sameToken reports whether two files hold one token. One that cannot be read is told elsewhere.
func sameToken(c config.Config, a, b string) bool {
	if a == b {
		return true
	}
	one, err := c.WorkerToken(a)
	if err != nil {
		return true
	}
	defer clear(one)
	two, err := c.WorkerToken(b)
	if err != nil {
		return true
	}
	defer clear(two)
	return subtle.ConstantTimeCompare(one, two) == 1
}
