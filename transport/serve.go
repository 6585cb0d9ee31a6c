package transport

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"playground/fault"
)

// statelessVersion is the first protocol version without sessions. Versions are dates, so they compare as strings.
const statelessVersion = "2026-07-28"

// serve checks a request and hands it to its tenant's endpoint.
func (t *Transport) serve(s *stream, r *http.Request) {
	s.Header().Set("X-Content-Type-Options", "nosniff")
	if !t.guard.host(r) {
		t.forbid(s, r, "host", refusal{http.StatusForbidden, codeServer, "this Host is not served", "add it to http.allowed_hosts"})
		return
	}
	origin, ok := t.guard.origin(r)
	if !ok {
		t.forbid(s, r, "origin", refusal{http.StatusForbidden, codeServer, "this Origin is not served", "add it to http.allowed_origins"})
		return
	}
	if origin != "" {
		allowOrigin(s, origin)
	}
	switch r.Method {
	case http.MethodOptions:
		preflight(s, r)
		return
	case http.MethodPost, http.MethodGet, http.MethodDelete:
	default:
		s.Header().Set("Allow", allowedMethods)
		badMethod().write(s, nil)
		return
	}
	who, ok := t.authenticate(s, r)
	if !ok {
		return
	}
	if t.options.Service != nil {
		t.serveBy(t.options.Service, s, r, who)
		return
	}
	e := t.endpoint(who.tenant)
	if e == nil {
		shuttingDown().write(s, nil)
		return
	}
	who.stream = s
	if r.Method == http.MethodPost {
		t.servePost(s, r, e, who)
	} else {
		t.serveOther(s, r, e, who)
	}
}

// servePost reads the message and chooses the protocol's era by it.
func (t *Transport) servePost(s *stream, r *http.Request, e *endpoint, who *caller) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refusal{http.StatusUnsupportedMediaType, codeInvalid, "Content-Type must be application/json", ""}.write(s, nil)
		return
	}
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		refusal{http.StatusNotAcceptable, codeInvalid, "Accept must name application/json and text/event-stream", ""}.write(s, nil)
		return
	}
	if !e.load.begin() {
		tooMany("too many requests at once").write(s, nil)
		return
	}
	defer e.load.end(who)
	body, refused := t.readBody(s.w, r, who, e.load)
	if refused != nil {
		refused.write(s, nil)
		return
	}
	m, refused := peek(body)
	if refused != nil {
		refused.write(s, m.id)
		return
	}
	if m.batch && !e.load.takeLarge(r.Context(), who) {
		tooMany("too many large requests at once").write(s, nil)
		return
	}
	// A revocation while the body came has not seen this request: its token is looked up once more.
	if _, ok := t.authenticate(s, r); !ok {
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	s.answers(m.id)
	session := r.Header.Get("Mcp-Session-Id")
	switch {
	case r.Header.Get("Mcp-Protocol-Version") >= statelessVersion:
		e.serve(e.stateless, who, s, r)
	case session != "":
		e.inSession(session, who, s, r, m.id)
	case m.method == "initialize":
		e.newSession(who, s, r, m.id)
	default: // an older client that keeps no session: each request stands alone
		e.serve(e.stateless, who, s, r)
	}
}

// serveOther serves GET (the stream of a session) and DELETE (its end).
func (t *Transport) serveOther(s *stream, r *http.Request, e *endpoint, who *caller) {
	session := r.Header.Get("Mcp-Session-Id")
	if r.Header.Get("Mcp-Protocol-Version") >= statelessVersion || session == "" {
		s.Header().Set("Allow", "POST, OPTIONS") // without a session there is nothing else
		badMethod().write(s, nil)
		return
	}
	if r.Method == http.MethodGet && !accepts(r, "text/event-stream") {
		refusal{http.StatusNotAcceptable, codeInvalid, "Accept must name text/event-stream", ""}.write(s, nil)
		return
	}
	s.answers(nil)
	e.inSession(session, who, s, r, nil)
}

// authenticate finds out who calls, from this request alone. Nothing is kept here: a revoked token ends with the next request.
func (t *Transport) authenticate(s *stream, r *http.Request) (*caller, bool) {
	token, ok := bearer(r)
	if ok {
		tenant, tokenID, err := t.options.Authenticate(r.Context(), token)
		switch {
		case err == nil && tenant != "":
			return &caller{tenant: tenant, tokenID: tokenID}, true
		case err != nil && !errors.Is(err, fault.Denied) && r.Context().Err() == nil:
			t.options.Logger.Error().Err(err).Msg(eventAuthBroken)
			refusal{http.StatusServiceUnavailable, codeServer, "tokens cannot be checked now", "try again in a moment"}.write(s, nil)
			return nil, false
		}
	}
	t.metrics.denied.Inc()
	if suppressed, say := t.denials.ask(time.Now()); say {
		t.security.Warn().Str("remote", remoteIP(r)).Str("check", "token").Bool("sent", ok).Int64("suppressed", suppressed).Msg(eventDenied)
	}
	// No resource_metadata: see Handler.
	s.Header().Set("WWW-Authenticate", "Bearer")
	unauthorized().write(s, nil)
	return nil, false
}

func (t *Transport) forbid(s *stream, r *http.Request, what string, f refusal) {
	t.denied(r, what)
	f.write(s, nil)
}
