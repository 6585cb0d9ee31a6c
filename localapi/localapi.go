// Package localapi is how Playground's programs talk on one host: HTTP and JSON over unix sockets. It listens and dials,
// says who is at the other end (peer credentials, see unix(4) and unix(7)), serves one table of routes per daemon and
// carries errors as fault.Error unchanged.
//
// Invariants: a caller is refused per request, with an answer it can read, never by closing an accepted connection; a
// route without an access rule is denied; a body is bounded and strict; a handler that panics takes the process down,
// because a root daemon with unknown state must be restarted from what is on disk.
package localapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"path"
	"runtime/debug"
	"time"

	"playground/fault"
)

// defaultMaxBody bounds a request's body where the daemon names no other bound: enough for every small JSON request.
const defaultMaxBody = 1 << 20

// A Route is one entry of a daemon's table.
type Route struct {
	Method string // "GET", "POST", ...
	Path   string // as http.ServeMux takes it, "/v1/things/{id}"
	Access Access // nil: nobody
	// Handle answers the request. It returns an error only while nothing has been written yet.
	Handle func(http.ResponseWriter, *http.Request) error
}

// An Access decides whether a peer may use a route; a refusal is a *fault.Error of kind Denied.
type Access func(Peer) error

// Uids returns the Access that admits these user ids and nobody else.
func Uids(uids ...uint32) Access {
	return func(p Peer) error {
		if p.Err != nil {
			return fault.Wrap(fault.Denied, p.Err, "cannot tell who is calling")
		}
		for _, uid := range uids {
			if p.UID == uid {
				return nil
			}
		}
		return fault.New(fault.Denied, "user id %d may not call this daemon", p.UID).
			WithHint("call it as root or as the daemon's own user (allowed user ids: %v)", uids)
	}
}

// Options hold what differs between daemons.
type Options struct {
	MaxBody int64                      // bytes of one request's body; 0 = 1 MiB
	OnError func(*http.Request, error) // sees every error before it is sent; for the daemon's log; may be nil
}

// Handler serves the routes. It panics for a bad table, which is a programmer's error.
func Handler(routes []Route, opts Options) http.Handler {
	if opts.MaxBody <= 0 {
		opts.MaxBody = defaultMaxBody
	}
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.Handle(route.Method+" "+route.Path, handle(route, opts))
	}
	unknown := func(_ http.ResponseWriter, r *http.Request) error {
		return fault.New(fault.NotFound, "no such route: %s %s", r.Method, r.URL.Path).
			WithHint("check that both programs are of the same version")
	}
	fallback := handle(Route{Access: func(Peer) error { return nil }, Handle: unknown}, opts)
	mux.Handle("/", fallback)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer crash()
		// ServeMux answers an unclean path with a redirect; a name such as ".." must not lead to another route.
		if path.Clean(r.URL.Path) != r.URL.Path {
			fallback.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// handle guards one route: access, then the body's bound, then the handler.
func handle(route Route, opts Options) http.HandlerFunc {
	serve := func(w http.ResponseWriter, r *http.Request) error {
		if route.Access == nil {
			return fault.New(fault.Denied, "nobody may use %s %s", route.Method, route.Path)
		}
		if err := route.Access(PeerOf(r.Context())); err != nil {
			return err
		}
		if r.ContentLength > opts.MaxBody {
			w.Header().Set("Connection", "close") // as MaxBytesReader does: what is still to come is not wanted
			return fault.New(fault.TooLarge, "request body is over %d bytes", opts.MaxBody)
		}
		r.Body = http.MaxBytesReader(w, r.Body, opts.MaxBody)
		return route.Handle(w, r)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		err := serve(w, r)
		if err == nil {
			return
		}
		if opts.OnError != nil {
			opts.OnError(r, err)
		}
		replyError(w, err)
	}
}

// crash turns a handler's panic into the end of the process. net/http would recover it and go on serving with whatever
// state the panic left; a new goroutine is out of its reach. The handler's goroutine never returns.
func crash() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { // the documented way to drop a connection; net/http compares it the same way
		panic(v)
	}
	text := fmt.Sprintf("internal error: handler: %v\n\n%s", v, debug.Stack())
	go panic(text)
	select {}
}

// Server returns a server for handler whose requests know their peer. It has no write timeout, since a handler may
// wait as long as its caller does, and no idle timeout, since the client gives up its idle connections first.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ConnContext:       ConnContext,
		ReadHeaderTimeout: 5 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // callers learn of errors through Options.OnError
	}
}

// Decode reads the request's body as exactly one JSON value into v: an unknown field, data after the value or a body
// over the bound is an error for the caller. It reads to the end, after which net/http watches the connection and ends
// the request's context when the caller vanishes.
func Decode(r *http.Request, v any) error {
	if r.Header.Get(blobHeader) != "" {
		return decodeBlobs(r, v)
	}
	return decodeStrict(r.Body, v)
}

func decodeStrict(body io.Reader, v any) error {
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeError(err)
	}
	switch _, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil || !tooLarge(err):
		return fault.New(fault.Invalid, "cannot read request: data after the JSON value at byte %d", dec.InputOffset())
	default:
		return decodeError(err)
	}
}

// decodeError says in the caller's terms what is wrong with a body.
func decodeError(err error) error {
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.New(fault.TooLarge, "request body is over %d bytes", big.Limit)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fault.New(fault.Invalid, "cannot read request: malformed JSON at byte %d: %v", syntax.Offset, syntax)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fault.New(fault.Invalid, "cannot read request: field %q cannot hold a JSON %s", wrong.Field, wrong.Value)
	}
	switch {
	case errors.Is(err, io.EOF):
		return fault.New(fault.Invalid, "cannot read request: the body is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Invalid, "cannot read request: the JSON value is cut off")
	}
	return fault.Wrap(fault.Invalid, err, "cannot read request")
}

func tooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

// Reply sends v as JSON, or 204 with no body for a nil v. The only error is a v that JSON cannot hold, and then nothing
// has been sent; a caller that has left is not an error.
func Reply(w http.ResponseWriter, v any) error {
	if v == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	body, err := encode(v)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "cannot encode answer")
	}
	send(w, http.StatusOK, "application/json", body)
	return nil
}

// encode is json.Marshal without the escapes that only a page of HTML needs.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func send(w http.ResponseWriter, status int, mime string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", mime)
	header.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller has left: there is nobody to tell
}
