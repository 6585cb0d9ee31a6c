package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"playground/localapi/workerapi"
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
		if err := checkWorkers(c); err != nil {
			return err
		}
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
	return serve(ctx, c, options.Config, logger)
}

// serve builds the parts and runs them until a signal comes.
func serve(ctx context.Context, c config.Config, path string, logger zerolog.Logger) error {
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
	countWorkers(registry, c)
	face := transport.Options{Logger: logger, Registry: registry}
	served, err := choose(&face, c, jails, jobs)
	if err != nil {
		return err
	}
	endpoint := newEndpoint(c, accounts, face)
	operator := users{
		Users: userapi.NewOperator(jails, jobs, accounts, userapi.About{
			Version: version.String(), Isolation: string(c.Sandbox.Isolation), Daemons: daemons(jails, jobs),
		}),
		forget: endpoint.Forget, forgetOperator: endpoint.ForgetOperator, operator: c.Work.Operator, security: daemon.Security(logger),
	}
	loops, err := openWork(ctx, c, workParts{accounts: accounts, starter: starter{workerapi.NewClient(c.ReaperSocket())}, jails: jails,
		sandbox: computers(c, jails, jobs), status: operator.Status, logger: logger, around: around{path, jails.Probe, jobs.Probe}})
	if err != nil {
		return err
	}
	defer loops.close()
	loops.counts.register(registry, loops.engine)
	operator.beginTenant, operator.endTenant = loops.beginTenant, loops.endTenant
	faces := faces{endpoint: endpoint, operator: operator, accounts: accounts, work: loops, logger: logger,
		all:    promhttp.HandlerFor(named(registry, usageCollector{jobs.Usage}), promhttp.HandlerOpts{}),
		counts: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	tasks, err := faces.listen(c)
	if err != nil {
		return err
	}
	tasks = append(served, tasks...)
	return daemon.Run(ctx, logger, append([]daemon.Task{watchLost(jobs.Status, logger), loops.watch(), loops.task()}, tasks...)...)
}

// newEndpoint returns the MCP service over the catalogue that was chosen.
func newEndpoint(c config.Config, accounts *account.Store, face transport.Options) *transport.Transport {
	face.Authenticate = func(ctx context.Context, token string) (string, string, error) {
		who, err := accounts.Authenticate(ctx, token)
		return who.Tenant, who.TokenID, err
	}
	face.AllowedHosts, face.AllowedOrigins, face.BodyBytes = c.HTTP.AllowedHosts, c.HTTP.AllowedOrigins, c.HTTP.BodyBytes
	face.SessionIdle, face.SessionsPerTenant = c.HTTP.SessionIdle, c.HTTP.SessionsPerTenant
	return transport.New(face)
}

// computers returns the tenants' sandboxes as their tools and runs use them.
func computers(c config.Config, jails *jailapi.Client, jobs *jobapi.Client) *sandbox.Provider {
	return sandbox.New(jails, jobs, sandbox.Options{Prefix: c.Host.Prefix, FileBytes: c.Jobs.FileBytes})
}

// tools returns the maker of each tenant's MCP server.
func tools(c config.Config, jails *jailapi.Client, jobs *jobapi.Client, logger zerolog.Logger) func(string) *mcp.Server {
	provider := computers(c, jails, jobs)
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
