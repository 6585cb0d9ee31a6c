package main

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"playground/daemon"
	"playground/faculty"
	"playground/gateway"
	"playground/version"
)

// How often native workers are asked whether they serve.
const (
	healthLook  = 2 * time.Second  // for workers that were started
	healthEvery = 30 * time.Second // each worker
	healthEager = 5 * time.Second  // one that did not serve yet
	healthTime  = 10 * time.Second // for one answer
	healthAtOne = 4                // checks at once
)

// A keeper is playground-facultyd, which keeps workers and shows the operator how they are.
type keeper interface {
	List(ctx context.Context) (faculty.Listing, error)
	Report(ctx context.Context, id string, health faculty.Health) error
}

// health asks the workers that playground-facultyd runs whether they serve, as a client would, and tells it.
type health struct {
	gateway *gateway.Gateway
	keeper  keeper
	asked   map[string]asked // by worker
}

// An asked is when a life of a worker was asked last.
type asked struct {
	run string
	at  time.Time
	ok  bool
}

// task looks after the workers until its context ends. A host without playground-facultyd has none to look after.
func (h *health) task() daemon.Task {
	return daemon.NewTask("worker health", func(ctx context.Context, ready func()) error {
		ready()
		ticker := time.NewTicker(healthLook)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-ticker.C:
				h.round(ctx, now)
			}
		}
	})
}

// round asks all workers whose turn it is.
func (h *health) round(ctx context.Context, now time.Time) {
	listing, err := h.keeper.List(ctx)
	if err != nil {
		return // it is not there, or says the next time
	}
	found := map[string]asked{}
	var due []faculty.Worker
	for _, w := range listing.Workers {
		if w.State != faculty.Running || w.Run == "" {
			continue
		}
		last := h.asked[w.ID]
		wait := healthEvery
		if !last.ok {
			wait = healthEager
		}
		if last.run == w.Run && now.Sub(last.at) < wait {
			found[w.ID] = last
			continue
		}
		due = append(due, w)
	}
	results := make([]faculty.Health, len(due))
	var group errgroup.Group
	group.SetLimit(healthAtOne)
	for i, w := range due {
		group.Go(func() error {
			results[i] = ask(ctx, h.gateway, w)
			return h.keeper.Report(ctx, w.ID, results[i])
		})
	}
	_ = group.Wait() // a worker that ended meanwhile takes no report
	for i, w := range due {
		found[w.ID] = asked{w.Run, now, results[i].OK}
	}
	h.asked = found
}

// ask makes a worker say who it is and which tools it has, in the newest version of the protocol that it speaks.
func ask(ctx context.Context, g *gateway.Gateway, w faculty.Worker) faculty.Health {
	result := faculty.Health{Run: w.Run}
	began := time.Now()
	err := func() error {
		to, err := netip.ParseAddrPort(w.Address)
		if err != nil || g.Address(w.Tenant) != to {
			return errors.New("the gateway's manifest does not name this worker")
		}
		ctx, cancel := context.WithTimeout(ctx, healthTime)
		defer cancel()
		result.Server, result.Tools, err = interview(ctx, g.RoundTripper(w.Tenant))
		return err
	}()
	result.TookMS = time.Since(began).Milliseconds()
	if result.OK = err == nil; !result.OK {
		result.Problem = g.Hide(w.Tenant, err.Error())
	}
	result.Server = g.Hide(w.Tenant, result.Server)
	return result
}

// interview is an MCP client's first two questions.
func interview(ctx context.Context, way http.RoundTripper) (server string, tools int, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "playground", Version: version.String()}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: "http://worker.invalid/mcp", // the way knows where it leads
		HTTPClient: &http.Client{Transport: way, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return "", 0, err
	}
	defer session.Close()
	if info := session.InitializeResult().ServerInfo; info != nil {
		server = info.Name + " " + info.Version
	}
	for _, err := range session.Tools(ctx, nil) {
		if err != nil {
			return server, tools, err
		}
		if tools++; tools > 10_000 {
			return server, tools, errors.New("its list of tools does not end")
		}
	}
	return server, tools, nil
}
