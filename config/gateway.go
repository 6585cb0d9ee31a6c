package config

import "time"

// A Catalogue is what the HTTP service serves. It is one of them and never both.
type Catalogue string

// The catalogues.
const (
	CatalogueSandbox Catalogue = "sandbox" // the tools of sandboxes
	CatalogueWorkers Catalogue = "workers" // each tenant's own native worker
)

// Gateway is how tenants' requests are forwarded to native workers. Sessions and request bodies have the bounds of HTTP.
type Gateway struct {
	Manifest           string // which tenant has which worker; set with CatalogueWorkers
	ExchangesPerTenant int
	ExchangesPerHost   int
	SessionsPerHost    int
	ResponseBytes      int64
	AnswerTime         time.Duration
	StreamTime         time.Duration
}

type rawGateway struct {
	Manifest           string   `toml:"manifest"`
	ExchangesPerTenant int64    `toml:"exchanges_per_tenant"`
	ExchangesPerHost   int64    `toml:"exchanges_per_host"`
	SessionsPerHost    int64    `toml:"sessions_per_host"`
	ResponseBytes      Bytes    `toml:"response_bytes"`
	AnswerTime         duration `toml:"answer_time"`
	StreamTime         duration `toml:"stream_time"`
}

func gatewayDefaults() rawGateway {
	return rawGateway{
		ExchangesPerTenant: 64, ExchangesPerHost: 1024, SessionsPerHost: 4096, ResponseBytes: 64 << 20,
		AnswerTime: "10m", StreamTime: "24h",
	}
}

func (v rawGateway) check(c *checker, http rawHTTP) {
	oneOf(c, "http.catalogue", http.Catalogue, []string{string(CatalogueSandbox), string(CatalogueWorkers)})
	switch {
	case v.Manifest != "":
		absolute(c, "gateway.manifest", v.Manifest)
	case http.Catalogue == string(CatalogueWorkers):
		c.refuse("gateway.manifest", v.Manifest, "http.catalogue is workers: name the file that gives each tenant its worker")
	}
	between(c, "gateway.exchanges_per_tenant", v.ExchangesPerTenant, 1, 10_000)
	between(c, "gateway.exchanges_per_host", v.ExchangesPerHost, v.ExchangesPerTenant, 100_000)
	between(c, "gateway.sessions_per_host", v.SessionsPerHost, http.SessionsPerTenant, 1_000_000)
	between(c, "gateway.response_bytes", v.ResponseBytes, 64<<10, 1<<40)
	span(c, "gateway.answer_time", v.AnswerTime, "1s", "24h")
	span(c, "gateway.stream_time", v.StreamTime, "1m", "8760h")
}

func (v rawGateway) build() Gateway {
	return Gateway{
		Manifest: v.Manifest, ExchangesPerTenant: int(v.ExchangesPerTenant), ExchangesPerHost: int(v.ExchangesPerHost),
		SessionsPerHost: int(v.SessionsPerHost), ResponseBytes: int64(v.ResponseBytes),
		AnswerTime: v.AnswerTime.must(), StreamTime: v.StreamTime.must(),
	}
}
