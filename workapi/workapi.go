// Package workapi serves /v1, the HTTP face of the work loop: records and threads, runs and what is told to them, decisions,
// permission rules, tools and health; and it has the typed client of these routes. Answers and errors have the envelopes of
// the protocol, {"object":"list","data":[...]} and {"object":"error","code","message"}, so that clients of the protocol work.
//
// Who may call at all is decided before a request gets here: by the peer of the operator's socket, or by an operator's token.
// A caller is thus always the operator, who may act for a tenant by naming it in X-Playground-Actor. What is decided here is
// what even the operator may not write: the kernel's own kinds.
package workapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"playground/confine/escape"
	"playground/policy"
	"playground/record"
	"playground/workloop"
)

// An Engine runs work loops; *workloop.Engine is one.
type Engine interface {
	Start(ctx context.Context, r workloop.StartRequest) (workloop.Started, error)
	Preview(ctx context.Context, r workloop.StartRequest) (workloop.Preview, error)
	Run(ctx context.Context, thread string) (workloop.Row, error)
	Runs(ctx context.Context, f workloop.Filter) (workloop.RunPage, error)
	Event(ctx context.Context, thread string, event workloop.Event) error
	Decide(ctx context.Context, request string, answer workloop.Event) (workloop.Decision, error)
	Decisions(ctx context.Context) ([]workloop.OpenDecision, error)
	Health(ctx context.Context) (workloop.Health, error)
	Tools() []workloop.ToolInfo
	Usage(ctx context.Context, principal, day string) (workloop.Usage, error)
}

// Options are an API's parts. Log, Engine and Rules are required.
type Options struct {
	Log      *record.Log
	Engine   Engine
	Rules    *policy.Evaluator
	Operator string // DID of the operator
	// Escape runs the escape suite; nil: there is none.
	Escape func(ctx context.Context) (escape.Report, error)
	// Tenant reports whether a tenant of this name exists; its DID is did:sync:user:NAME.
	Tenant    func(ctx context.Context, name string) (bool, error)
	Ready     func(ctx context.Context) error // why tenants cannot work now; nil: never asked
	Version   string
	Provider  string                     // name of the model provider; "" = none
	Model     string                     // the default model
	BodyBytes int64                      // largest request body; 0 = 2 MiB
	PingEvery time.Duration              // comments in silent streams; 0 = 15 s
	OnError   func(*http.Request, error) // sees what is not the caller's fault; may be nil
}

// An API is the handler of /v1. Make one with New; end its streams with Close.
type API struct {
	options Options
	started time.Time
	mux     *http.ServeMux
	owned   map[string]bool // first path elements below /v1 that have routes
	streams chan struct{}   // one value for each open stream

	ctx    context.Context // ends all streams
	cancel context.CancelFunc
	mu     sync.Mutex     // mu guards the first Add of open against its Wait
	open   sync.WaitGroup // one for each open stream
}

// Bounds of requests and streams.
const (
	defaultBody  = 2 << 20 // a record's body is at most 1 MiB
	maxStreams   = 256
	defaultPings = 15 * time.Second
)

// New returns an API.
func New(o Options) *API {
	if o.BodyBytes <= 0 {
		o.BodyBytes = defaultBody
	}
	if o.PingEvery <= 0 {
		o.PingEvery = defaultPings
	}
	a := &API{options: o, started: time.Now(), mux: http.NewServeMux(), owned: map[string]bool{}, streams: make(chan struct{}, maxStreams)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	for _, route := range a.routes() {
		a.mux.Handle(route.method+" "+route.path, a.handle(route.serve))
		if element, below := strings.CutPrefix(route.path, "/v1/"); below {
			element, _, _ = strings.Cut(element, "/")
			a.owned[element] = true
		}
	}
	a.mux.Handle("/", a.handle(a.unknownRoute))
	return a
}

// Close ends all streams and waits for them. Requests that come later are answered, streams are refused.
func (a *API) Close() {
	a.mu.Lock()
	a.cancel()
	a.mu.Unlock()
	a.open.Wait()
}

// begin counts a stream in, unless the API is closed.
func (a *API) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return false
	}
	a.open.Add(1)
	return true
}

// Owns reports whether a path belongs to the API: a socket may serve routes of others below /v1 too.
func (a *API) Owns(urlPath string) bool {
	element, below := strings.CutPrefix(urlPath, "/v1/")
	element, _, _ = strings.Cut(element, "/")
	return below && a.owned[element] || Open(urlPath)
}

// Open reports whether a path needs no credential: whether the daemon lives is no secret.
func Open(urlPath string) bool { return urlPath == "/health" || urlPath == "/health/ready" }

// ServeHTTP answers a request of an authenticated caller.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	// ServeMux answers an unclean path with a redirect; it must not lead to another route.
	if path.Clean(r.URL.Path) != r.URL.Path {
		a.handle(a.unknownRoute).ServeHTTP(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// A handler answers a request, or returns an error while nothing is written.
type handler func(w http.ResponseWriter, r *http.Request) error

type route struct {
	method, path string
	serve        handler
}

func (a *API) routes() []route {
	return []route{
		{"POST", "/v1/records", a.writeRecord},
		{"GET", "/v1/records", a.listRecords},
		{"GET", "/v1/records/{id}", a.getRecord},
		{"POST", "/v1/records/query", a.queryRecords},
		{"GET", "/v1/threads", a.listThreads},
		{"GET", "/v1/threads/{id}", a.getThread},
		{"GET", "/v1/threads/{id}/records", a.threadRecords},
		{"GET", "/v1/threads/{id}/state", a.threadState},
		{"GET", "/v1/threads/{id}/participants", a.threadParticipants},
		{"GET", "/v1/threads/{id}/children", a.threadChildren},
		{"GET", "/v1/threads/{id}/parents", a.threadParents},
		{"GET", "/v1/threads/{id}/watch", a.watchThread},
		{"GET", "/v1/events/stream", a.streamEvents},
		{"POST", "/v1/work/loop", a.startRun},
		{"POST", "/v1/work/loop/preview", a.previewRun},
		{"GET", "/v1/work/loop/{thread}", a.getRun},
		{"POST", "/v1/work/loop/{thread}/cancel", a.cancelRun},
		{"GET", "/v1/work/loop/{thread}/stream", a.streamRun},
		{"POST", "/v1/work/escape", a.runEscape},
		{"POST", "/v1/actors/{did}/runs", a.startActorRun},
		{"GET", "/v1/actors/{did}/runs", a.actorRuns},
		{"GET", "/v1/actors/{did}/usage", a.actorUsage},
		{"GET", "/v1/runs", a.listRuns},
		{"GET", "/v1/runs/{thread}", a.getRun},
		{"GET", "/v1/runs/{thread}/events", a.streamRun},
		{"POST", "/v1/runs/{thread}/events", a.tellRun},
		{"GET", "/v1/runs/{thread}/provenance", a.runProvenance},
		{"GET", "/v1/decisions", a.listDecisions},
		{"POST", "/v1/decisions/{id}/decide", a.decide},
		{"GET", "/v1/config/permission-rules", a.listRules},
		{"GET", "/v1/tools", a.listTools},
		{"GET", "/v1/tools/{id}", a.getTool},
		{"GET", "/v1/engine/health", a.engineHealth},
		{"GET", "/v1/engine/expression_cache/stats", a.expressionStats},
		{"GET", "/v1/engine/verify", a.verifyLog},
		{"GET", "/v1/health", a.health},
		{"GET", "/health", a.alive},
		{"GET", "/health/ready", a.ready},
	}
}

// handle reads the body, checks for whom the request is, and writes errors.
func (a *API) handle(serve handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := a.readBody(w, r)
		if err == nil && !Open(r.URL.Path) {
			// A claim that is not true is refused on every route, also where nothing depends on it.
			_, err = a.caller(r)
		}
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			a.fail(w, r, err)
		}
	})
}

// bodyTime bounds how long a body may take to arrive. It is not the server's ReadTimeout, which would end the watch for a client
// that goes away too.
const bodyTime = time.Minute

// readBody reads the whole body, which is small.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	limit := a.options.BodyBytes
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // what is still to come is not wanted
		return tooLarge(limit)
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // best effort: a test's recorder has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = control.SetReadDeadline(time.Time{})
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return tooLarge(limit)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, codeInvalidBody, "the body did not arrive whole")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}
