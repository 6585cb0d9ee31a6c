package gateway

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

// probeBytes bounds each answer of a worker that is not for a client.
const probeBytes = 4 << 20

// RoundTripper returns the way to a tenant's worker for a client of this host's own, such as a check of its health: with the
// worker's token, to the manifest's address whatever the request's URL says, once, and on a connection of its own. It returns
// nil for a tenant without a worker.
func (g *Gateway) RoundTripper(tenant string) http.RoundTripper {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tenants[tenant]; t != nil {
		return roundTripper{g, t}
	}
	return nil
}

// Hide returns a text without the token of a tenant's worker, which the worker may have put into it.
func (g *Gateway) Hide(tenant, text string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tenants[tenant]; t != nil {
		return strings.ReplaceAll(text, *t.worker.token, "[token]")
	}
	return text
}

type roundTripper struct {
	gateway *Gateway
	tenant  *tenant
}

// RoundTrip implements http.RoundTripper. The session id is the worker's own.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(io.LimitReader(request.Body, probeBytes))
		if err = errors.Join(err, request.Body.Close()); err != nil {
			return nil, err
		}
	}
	w := r.tenant.worker
	l, err := r.gateway.connect(request.Context(), r.tenant)
	if err != nil {
		return nil, err
	}
	response, err := l.roundTrip(newRequest(request.Method, w.Address, up(request.Header, *w.token, request.Header.Get(sessionHeader)), body))
	if err != nil {
		l.close()
		return nil, err
	}
	response.Body = &linkBody{meter{response.Body, probeBytes, errAnswer}, l}
	response.Request = request
	return response, nil
}

// A linkBody is a bounded body whose end is that of its connection.
type linkBody struct {
	meter
	link *link
}

// Close implements io.Closer.
func (b *linkBody) Close() error {
	b.link.close()
	return nil
}
