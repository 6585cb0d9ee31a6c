// Package gateway forwards an authenticated tenant's MCP requests to the one native worker that the operator's manifest
// gives it: a literal loopback address and a bearer of its own. Nothing that a client sends chooses a destination, and a
// tenant without an entry is served by nobody.
//
// Bodies pass byte for byte, as do the status and a fixed list of headers; the client's token and cookies never reach the
// worker, the worker's token and session ids never reach the client. Sessions of protocol versions up to 2025-11-25 are
// translated: the client knows a public id, which is worth something only together with its tenant's token. From 2026-07-28
// on there are no sessions, and requests pass as they are.
//
// Each request has a connection of its own, which may be made a moment before, and is sent at most once. There is no
// redirect, no proxy and no second try, so whoever is told that an outcome is unknown can rely on it that the worker saw
// the request once at most.
package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"playground/transport"
)

// statelessVersion is the first protocol version without sessions. Versions are dates, so they compare as strings.
const statelessVersion = "2026-07-28"

// The causes of ending an exchange that is neither answered nor given up by its client.
var (
	errTimeout = errors.New("the time for an answer is over")
	errClosed  = errors.New("the session or the tenant was closed")
)

// An Outcome is how an exchange ended, for metrics and logs.
type Outcome string

// The outcomes.
const (
	Answered    Outcome = "answered"
	Unreachable Outcome = "unreachable" // no connection: nothing was sent
	TimedOut    Outcome = "timed_out"   // sent; what became of it is unknown
	Broken      Outcome = "broken"      // sent; the worker left, or sent what is no answer
	Rejected    Outcome = "rejected"    // the worker answered 401, 403 or with a redirect: its configuration is wrong
	TooLarge    Outcome = "too_large"
	Left        Outcome = "client_left"
	Closed      Outcome = "closed"
)

// An Exchange is what is told of one request that had a place. It holds nothing of the request's content.
type Exchange struct {
	Tenant  string
	Method  string // of HTTP
	Outcome Outcome
	Status  int // what the client got; 0 = nothing
	Took    time.Duration
	Err     error // why it was not answered; names no secret
}

// Options are a Gateway's fixed values. Zero numbers stand for the defaults.
type Options struct {
	Manifest Manifest
	// Dial connects to a worker. The tenant and the address are the manifest's, always.
	Dial    func(ctx context.Context, tenant string, worker netip.AddrPort) (Conn, error)
	Observe func(Exchange) // sees every exchange at its end; may be nil

	SessionIdle        time.Duration // a session without a request for so long is dropped; 30 min
	SessionsPerTenant  int           // 64; as many streams (GET) may be open
	SessionsPerHost    int           // 4096
	ExchangesPerTenant int           // requests at once, streams aside; 64
	ExchangesPerHost   int           // requests and streams of all tenants at once; 1024
	ResponseBytes      int64         // the longest answer; 64 MiB
	AnswerTime         time.Duration // for one whole answer; 10 min
	StreamTime         time.Duration // after which a stream (GET) ends, for its client to open another; 24 h
}

// A Conn is a connection to a worker: a net.Conn, the *os.File of a socket, or what has a method Quiet as localtcp.Conn's.
type Conn interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// dialTime bounds connecting, which on one host takes no time unless the worker is stuck.
const dialTime = 5 * time.Second

// A Gateway forwards the requests of the manifest's tenants. It is a transport.Service.
type Gateway struct {
	options Options
	buffers sync.Pool // of *[]byte, bufferSize each
	work    sync.WaitGroup

	mu       sync.Mutex // guards what follows and all tenants
	tenants  map[string]*tenant
	sessions int // of all tenants, those that are starting included
	running  int // exchanges of all tenants
	closed   bool
}

// A tenant is one entry of the manifest and what runs for it. The Gateway's mu guards it.
type tenant struct {
	worker   Worker
	ctx      context.Context // ends all its exchanges
	cancel   context.CancelCauseFunc
	sessions map[string]*session
	starting int // places held by initialize requests
	requests int
	streams  int

	last  time.Time // when an exchange ended
	spare *spare
}

var _ transport.Service = (*Gateway)(nil)

// New returns a Gateway. Nothing runs until it is asked to serve.
func New(o Options) *Gateway {
	defaults := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	defaults(&o.SessionsPerTenant, 64)
	defaults(&o.SessionsPerHost, 4096)
	defaults(&o.ExchangesPerTenant, 64)
	defaults(&o.ExchangesPerHost, 1024)
	if o.ResponseBytes <= 0 {
		o.ResponseBytes = 64 << 20
	}
	if o.SessionIdle <= 0 {
		o.SessionIdle = 30 * time.Minute
	}
	if o.AnswerTime <= 0 {
		o.AnswerTime = 10 * time.Minute
	}
	if o.StreamTime <= 0 {
		o.StreamTime = 24 * time.Hour
	}
	if o.Observe == nil {
		o.Observe = func(Exchange) {}
	}
	g := &Gateway{options: o, tenants: map[string]*tenant{}}
	g.buffers.New = func() any { b := make([]byte, bufferSize); return &b }
	for _, w := range o.Manifest.workers {
		t := &tenant{worker: w}
		t.renew()
		g.tenants[w.Tenant] = t
	}
	return g
}

func (t *tenant) renew() {
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	t.sessions = map[string]*session{}
}

// Serve forwards one request of a tenant, whose body was read already, and writes the answer.
func (g *Gateway) Serve(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	g.mu.Lock()
	t, closed := g.tenants[name], g.closed
	x := &forward{gateway: g, tenant: t, w: w, r: r, body: body}
	if t != nil {
		x.ctx = t.ctx
	}
	g.mu.Unlock()
	refused := checkHeaders(r.Header)
	switch {
	case refused != nil:
		x.refuse(*refused)
		return
	case closed:
		x.refuse(shuttingDown())
		return
	case t == nil:
		x.refuse(noWorker())
		return
	}
	public := r.Header.Get(sessionHeader)
	stateless := r.Header.Get(versionHeader) >= statelessVersion
	switch {
	// An initialize request gets a session whatever it says of its version: the worker may keep one for it.
	case (public == "" || stateless) && initializes(r, body):
		x.initialize()
	case stateless: // the worker says what it does with GET and DELETE
		x.run(x.ctx)
	case public == "":
		x.refuse(noSessionGiven())
	default:
		x.inSession(public)
	}
}

// Sessions counts the open sessions of all tenants.
func (g *Gateway) Sessions() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.tenants {
		n += len(t.sessions)
	}
	return n
}

// Forget ends a tenant's sessions and exchanges: its token was revoked. What the worker makes of that is its own affair.
func (g *Gateway) Forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tenants[name]; t != nil {
		g.closeLocked(t)
		t.renew()
	}
}

// Shutdown ends everything, refuses new requests, and waits for the exchanges to end.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	for _, t := range g.tenants {
		g.closeLocked(t)
	}
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		g.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *Gateway) closeLocked(t *tenant) {
	t.cancel(errClosed)
	t.discardLocked()
	for _, s := range t.sessions {
		g.dropLocked(t, s)
	}
}

// begin takes a place for an exchange; each success needs one end.
func (g *Gateway) begin(t *tenant, stream bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed, g.running >= g.options.ExchangesPerHost:
		return false
	case stream && t.streams >= g.options.SessionsPerTenant:
		return false
	case !stream && t.requests >= g.options.ExchangesPerTenant:
		return false
	}
	g.running++
	if stream {
		t.streams++
	} else {
		t.requests++
	}
	g.work.Add(1)
	return true
}

func (g *Gateway) end(t *tenant, stream bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if stream {
		t.streams--
	} else {
		t.requests--
	}
	g.work.Done()
}

// Address returns where a tenant's worker is; the zero value if it has none.
func (g *Gateway) Address(tenant string) netip.AddrPort {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tenants[tenant]; t != nil {
		return t.worker.Address
	}
	return netip.AddrPort{}
}
