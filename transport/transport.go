// Package transport serves MCP over Streamable HTTP: it turns an HTTP request into a call on the tools of the tenant that
// the request's own bearer token names.
//
// Each tenant has an endpoint of its own (see endpoint.go), found anew for every request, so a session id of another
// tenant is simply unknown there and no identity can grow stale. An endpoint speaks both eras of the protocol: stateful
// sessions up to 2025-11-25 and single stateless requests from 2026-07-28 on.
//
// What faces the network is checked in this order, each with its own status: path, Host, Origin, method, token, media
// types, size and form of the body. Tokens, arguments and output never reach a log or a metric.
package transport

import (
	"context"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Path is where the endpoint is served.
const Path = "/mcp"

// Names of log events. They are constant, so that they can be searched for.
const (
	eventDenied        = "denied"             // security: the field check says what was refused: token, host or origin
	eventAuthBroken    = "tokens_not_checked" // the account store fails
	eventToolCalled    = "tool_called"
	eventToolPanicked  = "tool_panicked"
	eventSessionOpened = "session_opened"
	eventSessionClosed = "session_closed"
	eventSessionLimit  = "session_limit_reached"
	eventServerError   = "http_server_error"
)

// Options are a Transport's fixed values. Zero numbers stand for the defaults.
type Options struct {
	// Authenticate names the tenant and the (public) id of a token. An error that is fault.Denied refuses the caller;
	// every other error means that tokens cannot be checked now.
	Authenticate func(ctx context.Context, token string) (tenant, tokenID string, err error)
	// Catalogue makes a new MCP server with the tenant's tools. It is called twice for each endpoint.
	Catalogue func(tenant string) *mcp.Server
	// Service, if there is one, serves all tenants, and Catalogue is not used.
	Service Service

	AllowedHosts      []string      // Host values beside loopback and the address that was called; "name" or "name:port"
	AllowedOrigins    []string      // browser origins beside the server's own, "https://name[:port]"
	BodyBytes         int64         // largest request body; 5 MiB
	SessionIdle       time.Duration // a session without a request for so long is closed; 30 min
	SessionsPerTenant int           // 64
	PingEvery         time.Duration // keep-alive comments in silent event streams; 10 s

	Logger   zerolog.Logger
	Registry *prometheus.Registry // metrics are registered here; nil = nowhere to be seen
}

// A Transport is the HTTP side of Playground. Make one with New; end it with Shutdown.
type Transport struct {
	options  Options
	security zerolog.Logger // denials, at every log level
	// What callers without a tenant, or a tenant without measure, can repeat as fast as they like.
	denials, forbids, limits quiet
	guard                    guard
	metrics                  *metrics
	calls                    doorCalls
	work                     sync.WaitGroup // endpoints being closed

	mu        sync.Mutex // guards what follows
	endpoints map[string]*endpoint
	loads     map[string]*load // with a Service
	closed    bool
}

// New returns a Transport. Nothing runs until its handler is served.
func New(options Options) *Transport {
	if options.BodyBytes <= 0 {
		options.BodyBytes = 5 << 20
	}
	if options.SessionIdle <= 0 {
		options.SessionIdle = 30 * time.Minute
	}
	if options.SessionsPerTenant <= 0 {
		options.SessionsPerTenant = 64
	}
	if options.PingEvery <= 0 {
		options.PingEvery = 10 * time.Second
	}
	t := &Transport{
		options:   options,
		security:  options.Logger.Level(zerolog.InfoLevel).With().Bool("security", true).Logger(),
		guard:     newGuard(options.AllowedHosts, options.AllowedOrigins),
		endpoints: map[string]*endpoint{},
		loads:     map[string]*load{},
	}
	t.metrics = newMetrics(options.Registry, t.sessions)
	return t
}

// Handler serves Path. Every other path, the OAuth discovery documents included, is a plain 404: clients that find
// discovery ignore a token that was configured by hand.
func (t *Transport) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		every := t.options.PingEvery
		if t.options.Service != nil {
			every = 0 // its bytes are not ours to add to
		}
		s := newStream(w, every)
		defer func() {
			s.close()
			t.metrics.requests.WithLabelValues(knownMethod(r.Method), statusText(s.status)).Inc()
		}()
		if r.URL.Path != Path {
			http.NotFound(s, r)
			return
		}
		t.serve(s, r)
	})
}

// Server returns an http.Server for h with the time limits that suit event streams: headers must come soon, answers may
// take long.
func (t *Transport) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ConnContext:       narrow,
		ErrorLog:          log.New(errorLog{t.options.Logger}, "", 0),
	}
}

// sendBuffer is what the kernel may hold of the answers on one connection. By itself it takes megabytes, of memory that all
// connections of the host share, for a client that does not read.
const sendBuffer = 128 << 10

func narrow(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*net.TCPConn); ok {
		_ = c.SetWriteBuffer(sendBuffer) // best effort: without it there is more to hold
	}
	return ctx
}

// Forget closes a tenant's sessions, streams and calls: its token was revoked or its sandbox destroyed. The next request
// with a good token begins anew.
func (t *Transport) Forget(tenant string) {
	if t.options.Service != nil {
		t.options.Service.Forget(tenant)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.endpoints[tenant]; e != nil {
		delete(t.endpoints, tenant)
		t.work.Go(e.close)
	}
}

// Shutdown ends all calls, streams and sessions and refuses new requests. Call it before http.Server.Shutdown, which
// would otherwise wait for event streams that never end by themselves.
func (t *Transport) Shutdown(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	for tenant, e := range t.endpoints {
		delete(t.endpoints, tenant)
		t.work.Go(e.close)
	}
	t.mu.Unlock()
	if t.options.Service != nil {
		return t.options.Service.Shutdown(ctx)
	}
	done := make(chan struct{})
	go func() {
		t.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endpoint returns the tenant's endpoint, or nil when the transport is shut down.
func (t *Transport) endpoint(tenant string) *endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	e := t.endpoints[tenant]
	if e == nil {
		e = newEndpoint(t, tenant)
		t.endpoints[tenant] = e
	}
	return e
}

// sessions counts the open sessions of all tenants.
func (t *Transport) sessions() (n int) {
	if t.options.Service != nil {
		return t.options.Service.Sessions()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.endpoints {
		n += e.count()
	}
	return n
}

// errorLog makes net/http's own texts events.
type errorLog struct{ logger zerolog.Logger }

func (l errorLog) Write(p []byte) (int, error) {
	l.logger.Warn().Str("err", strings.TrimSpace(string(p))).Msg(eventServerError)
	return len(p), nil
}

// remoteIP is the caller's address, for security events.
func remoteIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
