package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"playground/account"
	"playground/config"
	"playground/daemon"
	"playground/localapi"
	"playground/localapi/userapi"
	"playground/transport"
	"playground/workapi"
)

// faces are what the daemon shows on its sockets. The operator sees all metrics, the loopback port counts only.
type faces struct {
	endpoint    *transport.Transport
	operator    userapi.Users
	accounts    *account.Store
	work        *work
	all, counts http.Handler
	logger      zerolog.Logger
}

// listen opens every socket and returns the tasks that serve them.
func (f faces) listen(c config.Config) ([]daemon.Task, error) {
	open, err := listen(c)
	if err != nil {
		return nil, err
	}
	access := localapi.Uids(0, uint32(os.Geteuid()))
	handler := localapi.Handler(userapi.Routes(f.operator, access, f.all), localapi.Options{OnError: func(r *http.Request, err error) {
		f.logger.Warn().Str("route", r.Pattern).Err(err).Msg(eventRequestFailed)
	}})
	local := localapi.Server(f.work.onSocket(access, daemon.Security(f.logger), handler))
	network := f.endpoint.Server(f.network())
	for _, server := range []*http.Server{local, network} {
		server.RegisterOnShutdown(f.work.api.Close) // its streams do not end by themselves
	}
	tasks := []daemon.Task{daemon.HTTPTask("operator", local, open.operator)}
	if open.metrics != nil {
		tasks = append(tasks, daemon.HTTPTask("metrics", metricsServer(f.operator, f.counts), open.metrics))
	}
	return append(tasks, mcpTask{daemon.HTTPTask("mcp", network, open.mcp), f.endpoint}), nil
}

// network is the handler of the one address that strangers reach: /mcp for tenants, /v1 for operators' tokens.
func (f faces) network() http.Handler {
	mcp := f.endpoint.Handler()
	door := f.endpoint.Guard(transport.Door{
		Authenticate: f.accounts.AuthenticateOperator, Open: workapi.Open, Refuse: workapi.Refuse, Next: f.work.api,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") || workapi.Open(r.URL.Path) {
			door.ServeHTTP(w, r)
			return
		}
		mcp.ServeHTTP(w, r)
	})
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
