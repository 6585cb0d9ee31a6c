package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"playground/config"
	"playground/daemon"
	"playground/fault"
	"playground/gateway"
	"playground/jail"
	"playground/localapi/facultyapi"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
	"playground/localtcp"
	"playground/transport"
)

// Log events, in the message's place.
const (
	eventExchange       = "worker_exchange"
	eventExchangeFailed = "worker_exchange_failed"
)

// manifest loads the operator's list of workers, from files that playgroundd can read as the user that it runs as. Root, who asks with
// -t, is told whether it can.
func manifest(c config.Config) (gateway.Manifest, error) {
	m, err := gateway.Load(c.Gateway.Manifest, func(path string, most int64) ([]byte, error) {
		return config.PrivateFileOf(path, most, c.TransportUser())
	})
	if err != nil {
		return gateway.Manifest{}, err
	}
	return m, gateway.RefuseOwn(m, c.HTTP.Listen, c.HTTP.MetricsListen)
}

// checkWorkers is the part of "playgroundd -t" that reads more than the configuration.
func checkWorkers(c config.Config) error {
	if c.HTTP.Catalogue != config.CatalogueWorkers {
		return nil
	}
	_, err := manifest(c)
	return err
}

// choose gives the face to the network one of the two catalogues; of the other one nothing is made. It returns the tasks that
// belong to it.
func choose(face *transport.Options, c config.Config, jails *jailapi.Client, jobs *jobapi.Client) ([]daemon.Task, error) {
	if c.HTTP.Catalogue != config.CatalogueWorkers {
		face.Catalogue = tools(c, jails, jobs, face.Logger)
		return nil, nil
	}
	m, err := manifest(c)
	if err != nil {
		return nil, err
	}
	to := newRoads(jails)
	g := newGateway(c, m, to, face.Registry, face.Logger)
	face.Service = workers{g, to}
	check := &health{gateway: g, keeper: facultyapi.NewClient(c.FacultySocket())}
	return []daemon.Task{check.task()}, nil
}

// workers are all tenants' workers: what serves in the place of the tools of sandboxes.
type workers struct {
	*gateway.Gateway
	roads *roads
}

// Forget ends what a tenant has open.
func (w workers) Forget(tenant string) {
	w.roads.forget(tenant)
	w.Gateway.Forget(tenant)
}

func newGateway(c config.Config, m gateway.Manifest, to *roads, registry prometheus.Registerer, logger zerolog.Logger) *gateway.Gateway {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "playground_worker_exchange_seconds", Help: "Requests to native workers by outcome.",
		Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600},
	}, []string{"outcome"})
	registry.MustRegister(seconds)
	return gateway.New(gateway.Options{
		Manifest: m, Dial: to.dial,
		Observe: func(x gateway.Exchange) {
			seconds.WithLabelValues(string(x.Outcome)).Observe(x.Took.Seconds())
			logExchange(logger, x)
		},
		SessionIdle: c.HTTP.SessionIdle, SessionsPerTenant: c.HTTP.SessionsPerTenant, SessionsPerHost: c.Gateway.SessionsPerHost,
		ExchangesPerTenant: c.Gateway.ExchangesPerTenant, ExchangesPerHost: c.Gateway.ExchangesPerHost,
		ResponseBytes: c.Gateway.ResponseBytes, AnswerTime: c.Gateway.AnswerTime, StreamTime: c.Gateway.StreamTime,
	})
}

// logExchange says how an exchange ended. What went wrong is for the operator: clients get no address and no cause.
func logExchange(logger zerolog.Logger, x gateway.Exchange) {
	event, name := logger.Info(), eventExchange
	switch x.Outcome {
	case gateway.Unreachable, gateway.TimedOut, gateway.Broken, gateway.Rejected, gateway.TooLarge:
		event, name = logger.Warn().AnErr("err", x.Err), eventExchangeFailed
		if f, ok := errors.AsType[*fault.Error](x.Err); ok && f.Hint != "" {
			event = event.Str("hint", f.Hint)
		}
	}
	event.Str("tenant", x.Tenant).Str("method", x.Method).Str("outcome", string(x.Outcome)).Int("status", x.Status).Dur("dur", x.Took).Msg(name)
}

// dialTime bounds a connection on the host itself.
const dialTime = 5 * time.Second

// networkTime is how long a tenant's network is believed without asking again. It changes only when a tenant is destroyed and
// made anew, which also calls forget.
const networkTime = 5 * time.Second

// roads are the ways to workers: where a tenant shares the host's network, its worker's address is the host's; where it has
// its own, playground-jaild connects from inside.
type roads struct {
	jails interface {
		Get(ctx context.Context, tenant string) (jail.Sandbox, error)
		Dial(ctx context.Context, tenant, address string) (*os.File, error)
	}

	local localtcp.Dialer

	mu      sync.Mutex // guards what follows
	known   map[string]network
	forgets int // how often a network may have changed
}

// A network is what was found out of a tenant's.
type network struct {
	of    jail.Network
	until time.Time
}

func newRoads(jails *jailapi.Client) *roads { return &roads{jails: jails, known: map[string]network{}} }

// forget makes the next connection ask anew.
func (r *roads) forget(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, tenant)
	r.forgets++
}

// networkOf returns a tenant's network.
func (r *roads) networkOf(ctx context.Context, tenant string) (jail.Network, error) {
	now := time.Now()
	r.mu.Lock()
	n, ok := r.known[tenant]
	forgets := r.forgets
	r.mu.Unlock()
	if ok && now.Before(n.until) {
		return n.of, nil
	}
	sandbox, err := r.jails.Get(ctx, tenant)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forgets == forgets { // or what was asked for is no longer true
		r.known[tenant] = network{sandbox.Network, now.Add(networkTime)}
	}
	return sandbox.Network, nil
}

// dial connects to a tenant's worker.
func (r *roads) dial(ctx context.Context, tenant string, to netip.AddrPort) (gateway.Conn, error) {
	of, err := r.networkOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	switch of {
	case jail.NetworkHost, jail.NetworkInherit, jail.NetworkAddress:
		return opened(r.local.Dial(to, time.Now().Add(dialTime)))
	}
	// jaild says which networks cannot be reached at all.
	return opened(r.jails.Dial(ctx, tenant, to.String()))
}

// opened keeps a nil pointer from becoming a Conn that is not nil.
func opened[C gateway.Conn](conn C, err error) (gateway.Conn, error) {
	if err != nil {
		return nil, err
	}
	return conn, nil
}
