package transport

import (
	"context"
	"encoding/json"
	"net/http"
)

// A Service answers the requests of authenticated tenants in the place of the tools of sandboxes: never both. Host, Origin,
// method, token and the body's size were checked before, in the same way and with the same texts.
type Service interface {
	// Serve answers one POST, GET or DELETE request, whose body was read whole. It may panic with http.ErrAbortHandler.
	Serve(w http.ResponseWriter, r *http.Request, tenant string, body []byte)
	Sessions() int        // open ones, of all tenants
	Forget(tenant string) // as Transport.Forget
	Shutdown(ctx context.Context) error
}

// serveBy hands a request to the service that this transport has instead of sandboxes.
func (t *Transport) serveBy(service Service, s *stream, r *http.Request, who *caller) {
	l := t.loadOf(who.tenant)
	if l == nil {
		shuttingDown().write(s, nil)
		return
	}
	if !l.begin() {
		tooMany("too many requests at once").write(s, nil)
		return
	}
	defer l.end(who)
	var body []byte
	if r.Method == http.MethodPost {
		var refused *refusal
		if body, refused = t.readBody(s.w, r, who, l); refused != nil {
			refused.write(s, nil)
			return
		}
		// A revocation while the body came has not seen this request: its token is looked up once more.
		if _, ok := t.authenticate(s, r); !ok {
			return
		}
	}
	service.Serve(s, r, who.tenant, body)
}

// loadOf returns what bounds a tenant's requests to a service, or nil when the transport is shut down. There are as many as
// tenants with a token.
func (t *Transport) loadOf(tenant string) *load {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	l := t.loads[tenant]
	if l == nil {
		l = newLoad(context.Background())
		t.loads[tenant] = l
	}
	return l
}

// Refuse answers a request that did not get what it asked for, in the form that clients show to people. The id is that of the
// request, or nil.
func Refuse(w http.ResponseWriter, id json.RawMessage, status int, message, hint string) {
	refusal{status, codeServer, message, hint}.write(w, id)
}

// RefuseSession answers a request whose session is not the caller's. Unknown sessions and those of others share this answer.
func RefuseSession(w http.ResponseWriter, id json.RawMessage) { unknownSession().write(w, id) }

// RefusalBody is the body of Refuse's answer, for an event stream that has begun.
func RefusalBody(id json.RawMessage, message, hint string) []byte {
	return refusal{code: codeServer, message: message, hint: hint}.body(id)
}
