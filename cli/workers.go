package cli

import (
	"fmt"

	"playground/config"
	"playground/fault"
	"playground/gateway"
	"playground/preflight"
)

// workerChecks looks at the manifest of native workers and the files that it names, as playgroundd will find them.
func workerChecks(c config.Config) []preflight.Check {
	if c.HTTP.Catalogue != config.CatalogueWorkers {
		return nil
	}
	read := func(path string, most int64) ([]byte, error) {
		return config.PrivateFileOf(path, most, c.TransportUser())
	}
	m, err := gateway.Load(c.Gateway.Manifest, read)
	if err == nil {
		err = gateway.RefuseOwn(m, c.HTTP.Listen, c.HTTP.MetricsListen)
	}
	if err != nil {
		return []preflight.Check{{Name: "gateway manifest", Status: preflight.Fail, Detail: err.Error(), Remedy: fault.HintOf(err)}}
	}
	return []preflight.Check{{Name: "gateway manifest", Status: preflight.Pass, Detail: fmt.Sprintf("%d tenants have a native worker", len(m.Workers()))}}
}
