package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"playground/account"
	"playground/catalogue"
	"playground/config"
	"playground/daemon"
	"playground/localapi"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
	"playground/localapi/userapi"
	"playground/sandbox"
	"playground/transport"
	"playground/version"
)

// Log events, in the message's place.
const (
	eventToolFailed    = "tool_failed"
	eventRequestFailed = "request_failed"
)

// run is the daemon: flags, configuration, parts, loop.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	options, err := flags(args, stderr)
	if err != nil {
		return err
	}
	if options.Version {
		_, err := fmt.Fprintln(stdout, daemon.Banner("playgroundd"))
		return err
	}
	c, err := config.Load(options.Config)
	if err != nil {
		return err
	}
	if options.Test {
		_, err := fmt.Fprintf(stdout, "playgroundd: %s is correct\n", options.Config)
		return err
	}
	if err := errors.Join(refuseRoot(), daemon.Undumpable()); err != nil {
		return err
	}
	daemon.CatchBrokenPipes()
	if os.Getenv("GOGC") == "" {
		// Each MCP message costs the SDK some 100 KiB that nothing keeps; with a live heap of a few MiB the default would
		// collect at every fourth call.
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		// Above this it collects as often as it must: after a burst of large files the heap would else keep five times its size.
		debug.SetMemoryLimit(192 << 20)
	}
	logger, err := daemon.Logger(stderr, c.Log.Level, "playgroundd")
	if err != nil {
		return err
	}
	return serve(ctx, c, logger)
}

// serve builds the parts and runs them until a signal comes.
func serve(ctx context.Context, c config.Config, logger zerolog.Logger) error {
	jails, jobs := jailapi.NewClient(c.JailSocket()), jobapi.NewClient(c.ReaperSocket())
	defer jails.Disconnect()
	defer jobs.Disconnect()
	if lost, _ := checkLost(ctx, jobs.Status, logger); lost != nil {
		return lost
	}
	// Where the other daemons are root, playground-launch has made it.
	if err := os.MkdirAll(c.TransportDir(), 0o700); err != nil {
		return fmt.Errorf("cannot make the daemon's folder: %w", err)
	}
	accounts, err := account.Open(c.Database())
	if err != nil {
		return err
	}
	defer accounts.Close()
	registry := newRegistry(&suiteCollector{jobs: jobs.Status, jails: jails.List})
	endpoint := transport.New(transport.Options{
		Authenticate: func(ctx context.Context, token string) (string, string, error) {
			who, err := accounts.Authenticate(ctx, token)
			return who.Tenant, who.TokenID, err
		},
		Catalogue:    tools(c, jails, jobs, logger),
		AllowedHosts: c.HTTP.AllowedHosts, AllowedOrigins: c.HTTP.AllowedOrigins, BodyBytes: c.HTTP.BodyBytes,
		SessionIdle: c.HTTP.SessionIdle, SessionsPerTenant: c.HTTP.SessionsPerTenant,
		Logger: logger, Registry: registry,
	})
	operator := users{
		Users: userapi.NewOperator(jails, jobs, accounts, userapi.About{
			Version: version.String(), Isolation: string(c.Sandbox.Isolation), Daemons: daemons(jails, jobs),
		}),
		forget: endpoint.Forget, security: daemon.Security(logger),
	}
	all := promhttp.HandlerFor(named(registry, usageCollector{jobs.Usage}), promhttp.HandlerOpts{})
	counts := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	tasks, err := listenAll(c, endpoint, operator, all, counts, logger)
	if err != nil {
		return err
	}
	return daemon.Run(ctx, logger, append([]daemon.Task{watchLost(jobs.Status, logger)}, tasks...)...)
}

// tools returns the maker of each tenant's MCP server.
func tools(c config.Config, jails *jailapi.Client, jobs *jobapi.Client, logger zerolog.Logger) func(string) *mcp.Server {
	provider := sandbox.New(jails, jobs, sandbox.Options{Prefix: c.Host.Prefix, FileBytes: c.Jobs.FileBytes})
	return func(tenant string) *mcp.Server {
		return catalogue.New(provider, tenant, catalogue.Options{
			Version: version.String(), Limits: c.JobLimits(), TextBytes: c.Jobs.TextBytes,
			OnError: func(_ context.Context, tool string, err error) {
				logger.Error().Str("tenant", tenant).Str("tool", tool).Err(err).Msg(eventToolFailed)
			},
		})
	}
}

// daemons are the programs that "playground status" shows; this one answers by itself.
func daemons(jails *jailapi.Client, jobs *jobapi.Client) []userapi.Check {
	self := localapi.Probe{PID: int32(os.Getpid()), Since: time.Now()}
	return []userapi.Check{
		{Name: "playground-jaild", Probe: jails.Probe},
		{Name: "playground-reaperd", Probe: jobs.Probe},
		{Name: "playgroundd", Probe: func(context.Context) (localapi.Probe, error) { return self, nil }},
	}
}

// listenAll opens every socket and returns the tasks that serve them. The operator sees all metrics, the loopback port counts
// only.
func listenAll(c config.Config, endpoint *transport.Transport, operator userapi.Users, all, counts http.Handler, logger zerolog.Logger) ([]daemon.Task, error) {
	open, err := listen(c)
	if err != nil {
		return nil, err
	}
	routes := userapi.Routes(operator, localapi.Uids(0, uint32(os.Geteuid())), all)
	handler := localapi.Handler(routes, localapi.Options{OnError: func(r *http.Request, err error) {
		logger.Warn().Str("route", r.Pattern).Err(err).Msg(eventRequestFailed)
	}})
	server := endpoint.Server(endpoint.Handler())
	tasks := []daemon.Task{daemon.HTTPTask("operator", localapi.Server(handler), open.operator)}
	if open.metrics != nil {
		tasks = append(tasks, daemon.HTTPTask("metrics", metricsServer(operator, counts), open.metrics))
	}
	return append(tasks, mcpTask{daemon.HTTPTask("mcp", server, open.mcp), endpoint}), nil
}

// An mcpTask ends the endpoint's streams, which never end by themselves, before the server waits for its requests.
type mcpTask struct {
	daemon.Task
	endpoint *transport.Transport
}

// Run serves until ctx ends.
func (t mcpTask) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamGrace)
		defer cancel()
		ended <- t.endpoint.Shutdown(limit)
	})
	err := t.Task.Run(ctx)
	if stop() { // the server failed by itself
		return err
	}
	return errors.Join(err, <-ended)
}

// streamGrace bounds the end of all streams.
const streamGrace = 3 * time.Second
