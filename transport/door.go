package transport

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"playground/fault"
)

// A Door serves paths beside Path to operators: the same checks of Host and Origin, but a token of another kind and answers of
// another form.
type Door struct {
	// Authenticate returns the public id of an operator's token. An error that is fault.Denied refuses the caller; every other
	// error means that tokens cannot be checked now.
	Authenticate func(ctx context.Context, token string) (tokenID string, err error)
	Open         func(path string) bool // paths that need no token
	Refuse       func(w http.ResponseWriter, status int, message, hint string)
	Next         http.Handler
}

// Guard returns the handler of a door.
func (t *Transport) Guard(d Door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { t.metrics.requests.WithLabelValues(knownMethod(r.Method), statusText(s.status)).Inc() }()
		t.guardOne(d, s, r)
	})
}

func (t *Transport) guardOne(d Door, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !t.guard.host(r) {
		t.denied(r, "host")
		d.Refuse(w, http.StatusForbidden, "this Host is not served", "add it to http.allowed_hosts")
		return
	}
	origin, ok := t.guard.origin(r)
	if !ok {
		t.denied(r, "origin")
		d.Refuse(w, http.StatusForbidden, "this Origin is not served", "add it to http.allowed_origins")
		return
	}
	if origin != "" {
		allowOrigin(w, origin)
	}
	if r.Method == http.MethodOptions {
		preflight(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if !d.Open(r.URL.Path) {
		id, ok := t.operator(d, w, r)
		if !ok {
			return
		}
		call := &doorCall{id, cancel}
		t.calls.add(call)
		defer t.calls.remove(call)
		// A revocation since the look-up has not seen the call: it is looked up once more, now that the next one would see it.
		if _, ok := t.operator(d, w, r); !ok {
			return
		}
	}
	// Nothing behind this point has a use for the token.
	r = r.WithContext(ctx)
	r.Header = r.Header.Clone()
	r.Header.Del("Authorization")
	d.Next.ServeHTTP(w, r)
}

// A doorCall is a request of an operator's token that is being served.
type doorCall struct {
	id     string
	cancel context.CancelFunc
}

// doorCalls are all of them; streams among them never end by themselves.
type doorCalls struct {
	mu   sync.Mutex // guards open
	open map[*doorCall]struct{}
}

func (c *doorCalls) add(call *doorCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*doorCall]struct{}{}
	}
	c.open[call] = struct{}{}
}

func (c *doorCalls) remove(call *doorCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, call)
}

// ForgetOperator ends the requests of an operator's token, named by its public id: it was revoked.
func (t *Transport) ForgetOperator(id string) {
	t.calls.mu.Lock()
	defer t.calls.mu.Unlock()
	for call := range t.calls.open {
		if call.id == id {
			call.cancel()
		}
	}
}

// operator returns the id of a request's valid operator's token, or answers the request. Nothing is kept here: a revoked token
// ends with the next request.
func (t *Transport) operator(d Door, w http.ResponseWriter, r *http.Request) (id string, ok bool) {
	token, sent := bearer(r)
	if sent {
		id, err := d.Authenticate(r.Context(), token)
		switch {
		case err == nil && id != "":
			return id, true
		case err != nil && !errors.Is(err, fault.Denied) && r.Context().Err() == nil:
			t.options.Logger.Error().Err(err).Msg(eventAuthBroken)
			d.Refuse(w, http.StatusServiceUnavailable, "tokens cannot be checked now", "try again in a moment")
			return "", false
		}
	}
	t.metrics.denied.Inc()
	if suppressed, say := t.denials.ask(time.Now()); say {
		t.security.Warn().Str("remote", remoteIP(r)).Str("check", "operator_token").Bool("sent", sent).Int64("suppressed", suppressed).Msg(eventDenied)
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="playground operator"`)
	d.Refuse(w, http.StatusUnauthorized, "an operator's token is required",
		"mint one on the host, playground operator token create NAME, and send the header Authorization: Bearer TOKEN; a tenant's token does not do")
	return "", false
}

// denied logs a refused Host or Origin.
func (t *Transport) denied(r *http.Request, check string) {
	if suppressed, say := t.forbids.ask(time.Now()); say {
		t.security.Warn().Str("remote", remoteIP(r)).Str("check", check).Int64("suppressed", suppressed).Msg(eventDenied)
	}
}

// A statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

// WriteHeader implements http.ResponseWriter.
func (s *statusWriter) WriteHeader(status int) {
	if !s.wrote {
		s.status, s.wrote = status, true
	}
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
