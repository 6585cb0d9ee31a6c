package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/catalogue"
)

// errClosed is the cause of ending a tenant's calls.
var errClosed = errors.New("the endpoint was closed")

// errTooManyLarge is for clients.
var errTooManyLarge = errors.New("too many large requests at once: wait for the answers to earlier ones, then try again")

// callerKey is where a caller travels in the SDK's TokenInfo, the one thing that it hands from a request to its handler
// without mixing up requests: a context is that of the session's first request.
const callerKey = "playground.caller"

// A caller is one authenticated request.
type caller struct {
	tenant, tokenID string
	stream          *stream
	starting        bool // holds a place for a new session; guarded by the endpoint's mu
	large           bool // holds a place for a large request; guarded by the load's mu
	ended           bool // its HTTP request is over; guarded by the load's mu
}

// An endpoint is one tenant's MCP service: one SDK handler for each era, over the same tools.
type endpoint struct {
	transport *Transport
	tenant    string
	ctx       context.Context // ends all calls
	cancel    context.CancelCauseFunc
	stateful  http.Handler
	stateless http.Handler
	servers   []*mcp.Server
	load      *load

	mu       sync.Mutex // guards what follows
	sessions map[string]*session
	starting int            // places held by initialize requests
	watchers sync.WaitGroup // one for each session
}

func newEndpoint(t *Transport, tenant string) *endpoint {
	e := &endpoint{transport: t, tenant: tenant, sessions: map[string]*session{}}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	e.load = newLoad(e.ctx)
	e.stateful = e.handler(false)
	e.stateless = e.handler(true)
	return e
}

// handler is the SDK's handler for one era.
func (e *endpoint) handler(stateless bool) http.Handler {
	server := e.transport.options.Catalogue(e.tenant)
	server.AddReceivingMiddleware(e.middleware(!stateless))
	e.servers = append(e.servers, server)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: stateless,
		// From 2026-07-28 on a client that goes away cancels its call.
		PropagateRequestCancellation: true,
		// Both were checked before: Host against more than loopback, the body against our own limit.
		DisableLocalhostProtection: true,
		MaxRequestBodyBytes:        -1,
	})
	return auth.RequireBearerToken(tokenInfo, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(h)
}

type callerContextKey struct{}

// tokenInfo gives the SDK the identity that was established already.
func tokenInfo(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
	who, ok := ctx.Value(callerContextKey{}).(*caller)
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: who.tenant, Extra: map[string]any{callerKey: who}}, nil
}

// serve hands a request to the SDK, without its token: nothing behind this point has a use for it.
func (e *endpoint) serve(h http.Handler, who *caller, s *stream, r *http.Request) {
	r = r.WithContext(context.WithValue(r.Context(), callerContextKey{}, who))
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", "Bearer -")
	h.ServeHTTP(s, r)
}

// newSession serves an initialize request, if the tenant may have one more session.
func (e *endpoint) newSession(who *caller, s *stream, r *http.Request, id json.RawMessage) {
	limit := e.transport.options.SessionsPerTenant
	e.mu.Lock()
	full := len(e.sessions)+e.starting >= limit
	if !full {
		e.starting++
		who.starting = true
	}
	e.mu.Unlock()
	if full {
		if suppressed, say := e.transport.limits.ask(time.Now()); say {
			e.transport.options.Logger.Warn().Str("tenant", e.tenant).Int("limit", limit).Int64("suppressed", suppressed).Msg(eventSessionLimit)
		}
		s.Header().Set("Retry-After", "60")
		refusal{http.StatusTooManyRequests, codeServer, "too many open sessions", "end one with DELETE, or wait until an idle one expires"}.write(s, id)
		return
	}
	e.serve(e.stateful, who, s, r)
	e.mu.Lock()
	if who.starting { // the SDK refused it before it became a session
		who.starting = false
		e.starting--
	}
	opened := e.sessions[s.Header().Get("Mcp-Session-Id")]
	e.mu.Unlock()
	if opened != nil {
		e.leave(opened)
	}
}

// close ends everything of the tenant and waits for it.
func (e *endpoint) close() {
	e.mu.Lock() // so that session opens none any more
	e.cancel(errClosed)
	e.mu.Unlock()
	var wg sync.WaitGroup
	for _, server := range e.servers {
		for ss := range server.Sessions() {
			wg.Go(func() { _ = ss.Close() })
		}
	}
	wg.Wait()
	e.watchers.Wait()
}

// middleware runs around every message: it arms the keep-alive, opens sessions, ties the call to the life of its session
// and endpoint, and counts tool calls.
func (e *endpoint) middleware(stateful bool) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			who := callerOf(req)
			if who == nil || who.tenant != e.tenant || e.ctx.Err() != nil {
				return nil, errClosed // the first two would be a bug; refuse rather than guess
			}
			if !strings.HasPrefix(method, "notifications/") {
				who.stream.ready()
			}
			end := e.ctx
			if ss, ok := req.GetSession().(*mcp.ServerSession); ok && stateful {
				s := e.session(ss, who, method)
				if s == nil {
					return nil, errClosed
				}
				end = s.ctx
			}
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			stop := context.AfterFunc(end, func() { cancel(errClosed) })
			defer stop()
			if call, ok := req.(*mcp.CallToolRequest); ok {
				if call.Params.Name == "read" && !e.load.takeLarge(ctx, who) {
					return nil, errTooManyLarge
				}
				return e.call(ctx, who, call, func() (mcp.Result, error) {
					return e.answer(ctx, who, func() (mcp.Result, error) { return next(ctx, method, req) })
				})
			}
			return next(ctx, method, req)
		}
	}
}

// answer runs a tool. A large page of output needs a place until its client has taken it: as text it can be several times as large, and
// nobody can make a client read. What waits for a place holds no page: asking for one again loses nothing.
func (e *endpoint) answer(ctx context.Context, who *caller, run func() (mcp.Result, error)) (mcp.Result, error) {
	result, err := run()
	if r, _ := result.(*mcp.CallToolResult); r == nil || catalogue.OutputBytes(r) <= smallPage || e.load.tryLarge(who) {
		return result, err
	}
	if !e.load.takeLarge(ctx, who) {
		return nil, errTooManyLarge
	}
	return run()
}

// call measures one tool call and keeps its panic from ending the whole process, which serves other tenants too.
func (e *endpoint) call(ctx context.Context, who *caller, req *mcp.CallToolRequest, run func() (mcp.Result, error)) (result mcp.Result, err error) {
	logger, start, tool := e.transport.options.Logger, time.Now(), knownTool(req.Params.Name)
	defer func() {
		outcome := outcomeOf(ctx, result, err)
		if cause := recover(); cause != nil {
			result, err, outcome = nil, errors.New("internal error"), "protocol_error"
			// The value may hold a tenant's data; its type and the place are enough.
			logger.Error().Str("tenant", e.tenant).Str("tool", tool).Type("panic", cause).Bytes("stack", debug.Stack()).Msg(eventToolPanicked)
		}
		took := time.Since(start)
		e.transport.metrics.observe(tool, outcome, took)
		logger.Info().Str("tenant", e.tenant).Str("token_id", who.tokenID).Str("tool", tool).Str("outcome", outcome).Dur("dur", took).Msg(eventToolCalled)
	}()
	return run()
}

func outcomeOf(ctx context.Context, result mcp.Result, err error) string {
	r, ok := result.(*mcp.CallToolResult)
	switch {
	case ctx.Err() != nil:
		return "cancelled"
	case err != nil || !ok || r == nil:
		return "protocol_error"
	case r.IsError:
		return "tool_error"
	}
	return "ok"
}

func callerOf(req mcp.Request) *caller {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	who, _ := extra.TokenInfo.Extra[callerKey].(*caller)
	return who
}
