// Package provider asks model services over their official SDKs: Anthropic's Messages API and OpenAI's Chat Completions, which
// others speak as well. It stands apart from package inference because a confined worker, which asks through its daemon, must not
// carry them. Keys are sent to the configured address only, and are in no error and no text.
package provider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"playground/fault"
	"playground/inference"
)

// The bounds of one call.
const (
	maxTries       = 3
	maxRetryAfter  = 20 * time.Second // a service that asks for more gets no second try from us
	firstBackoff   = 500 * time.Millisecond
	maxStream      = 16 << 20        // bytes of a streamed answer
	maxComplaint   = 64 << 10        // bytes of an error's body
	maxSilence     = 5 * time.Minute // without a byte, before and in the answer
	maxKey         = 4 << 10
	dialTimeout    = 15 * time.Second
	maxHeaderBytes = 64 << 10
)

// Options say how to reach a service.
type Options struct {
	BaseURL string // "" is the service's own; http only on loopback, unless there is no key to be read on the way
	Key     []byte // white space around it is dropped; it is copied, and never printed
	KeyFile string // where the key came from, for hints; may be ""
}

// A service is one HTTP API and the key for it.
type service struct {
	name    string // in messages
	base    string
	own     bool          // base is the service's own address, not that of a compatible one
	key     func() string // a closure, because a formatted function shows no key
	keyFile string
	client  *http.Client
	wait    func(ctx context.Context, d time.Duration) error // replaced in tests
}

// newService checks o. The errors are fault.Invalid and do not repeat the key.
func newService(name, home string, o Options) (*service, error) {
	key := string(bytes.TrimSpace(o.Key))
	if len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fault.New(fault.Invalid, "the key of %s has characters that cannot be sent, or is too long", name)
	}
	base := o.BaseURL
	if base == "" {
		base = home
	}
	if err := checkBase(base, key != ""); err != nil {
		return nil, err
	}
	s := &service{name: name, base: base, own: o.BaseURL == "", key: func() string { return key }, keyFile: o.KeyFile, wait: sleep}
	if key == "" && s.own {
		return nil, fault.New(fault.Invalid, "there is no key of %s", name).WithHint("%s", s.keyHint())
	}
	s.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    dialTimeout,
			IdleConnTimeout:        90 * time.Second,
			MaxIdleConnsPerHost:    8,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		// A redirect would send the key and the conversation to whoever the answer names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// checkBase refuses addresses that a key must not be sent to.
func checkBase(base string, secret bool) error {
	u, err := url.Parse(base)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		return fault.New(fault.Invalid, "the base URL of the model service is not an http or https address")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return fault.New(fault.Invalid, "the base URL of the model service has a user, a query or a fragment").
			WithHint("give scheme, host, port and path only; the key has a file of its own")
	case u.Scheme == "http" && secret && !loopback(u.Hostname()):
		return fault.New(fault.Invalid, "the key would go to %s unencrypted", u.Hostname()).
			WithHint("use an https address, or leave the key out if the service needs none")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// complete runs ask, again where nothing was received and a second try may help.
func (s *service) complete(ctx context.Context, r inference.Request, ask func(ctx context.Context, x *exchange) (inference.Response, error)) (inference.Response, error) {
	if r.MaxTokens < 1 || r.Model == "" || len(r.Messages) == 0 {
		return inference.Response{}, inference.NewError(inference.InvalidRequest, "a request needs a model, a message and max_tokens of at least 1")
	}
	for try := 1; ; try++ {
		attempt, stop := context.WithCancelCause(ctx)
		x := &exchange{service: s, stop: stop}
		x.watch = time.AfterFunc(maxSilence, func() { stop(errSilence) })
		response, err := ask(attempt, x)
		x.watch.Stop()
		cause := context.Cause(attempt)
		stop(nil)
		if err == nil {
			return response, nil
		}
		failed := s.explain(ctx, x, cause, err)
		pause, more := again(failed, try)
		if !more {
			return response, failed
		}
		if s.wait(ctx, pause) != nil {
			return inference.Response{}, inference.EndedBy(ctx, false)
		}
	}
}

// again reports whether a call that failed for the try-th time may be repeated, and after what pause.
func again(e *inference.Error, try int) (pause time.Duration, more bool) {
	transient := e.Failure == inference.RateLimited || e.Failure == inference.Overloaded || e.Failure == inference.Network
	if e.Started || !transient || try >= maxTries || e.RetryAfter > maxRetryAfter {
		return 0, false
	}
	pause = firstBackoff << (try - 1)
	pause = pause/2 + rand.N(pause) // callers that were refused together do not come back together
	return max(pause, e.RetryAfter), true
}

// What an exchange finds by itself. The SDKs wrap or replace errors, so explain looks here first.
var (
	errRedirect = errors.New("redirect")
	errNoStream = errors.New("not an event stream")
	errTooLong  = errors.New("the answer is too long")
	errSilence  = errors.New("silence")
	errCut      = errors.New("the stream ended early")
)

// An exchange is one HTTP request as the SDK sends it, and what came of it.
type exchange struct {
	service *service
	stop    context.CancelCauseFunc
	watch   *time.Timer // ends the exchange after a silence

	status    int
	header    http.Header
	complaint []byte // body of an error response
	read      int64
	problem   error
}

// Do implements the HTTP client of both SDKs.
func (x *exchange) Do(request *http.Request) (*http.Response, error) {
	response, err := x.service.client.Do(request)
	if err != nil {
		return nil, err
	}
	x.watch.Reset(maxSilence)
	x.status, x.header = response.StatusCode, response.Header
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case x.status >= 400:
		x.complaint, _ = io.ReadAll(io.LimitReader(response.Body, maxComplaint))
		_ = response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(x.complaint))
		return response, nil
	case x.status >= 300:
		x.problem = errRedirect
	case kind != "text/event-stream":
		x.problem = errNoStream
	default:
		response.Body = &streamBody{ReadCloser: response.Body, exchange: x}
		return response, nil
	}
	_ = response.Body.Close()
	return nil, x.problem
}

// A streamBody counts what is read of a stream, and ends it where it gets too long.
type streamBody struct {
	io.ReadCloser
	exchange *exchange
}

// Read implements io.Reader.
func (b *streamBody) Read(buffer []byte) (int, error) {
	x := b.exchange
	if x.read > maxStream {
		x.problem = errTooLong
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(buffer)
	x.read += int64(n)
	if n > 0 {
		x.watch.Reset(maxSilence)
	}
	return n, err
}

// A streamError is an error event in the middle of a stream.
type streamError struct{ body []byte }

func (*streamError) Error() string { return "the service reported an error in its stream" }

// explain turns what an SDK returned into an Error. The SDK's own error is dropped: it holds the request and its headers.
func (s *service) explain(ctx context.Context, x *exchange, cause, err error) *inference.Error {
	started := x.status >= 200 && x.status < 300
	e := s.reason(ctx, x, cause, err, started)
	e.Status, e.Started = x.status, started
	if pause, said := retryAfter(x.header, time.Now()); said {
		e.RetryAfter = pause
	}
	return e
}

func (s *service) reason(ctx context.Context, x *exchange, cause, err error, started bool) *inference.Error {
	host := s.host()
	event, inStream := errors.AsType[*streamError](err)
	switch {
	case ctx.Err() != nil:
		return inference.EndedBy(ctx, started)
	case cause == errSilence:
		return inference.NewError(inference.Network, "%s sent nothing for %v", s.name, maxSilence).WithHint("try again later")
	case x.problem == errRedirect:
		return inference.NewError(inference.InvalidRequest, "%s answers with a redirect, which is not followed", host).
			WithHint("set the base URL to the address that answers itself")
	case x.problem == errNoStream:
		return inference.NewError(inference.Malformed, "%s does not answer with an event stream", host).WithHint("check the base URL: is it that of a model service?")
	case x.problem == errTooLong:
		return inference.NewError(inference.Malformed, "the answer of %s is longer than %d bytes", s.name, maxStream)
	case x.status >= 400:
		return s.refused(ofStatus(x.status), x.status, complaintOf(x.complaint))
	case inStream:
		said := complaintOf(event.body)
		return s.refused(ofType(said.Error.Type), x.status, said)
	case !started:
		return inference.NewError(inference.Network, "cannot reach %s: %s", host, s.clean(innermost(err))).WithHint("check that this machine can reach %s", host)
	case errors.Is(err, errCut), isNetwork(err):
		return inference.NewError(inference.Network, "%s stopped in the middle of its answer", s.name).WithHint("try again")
	default:
		return inference.NewError(inference.Malformed, "the answer of %s is not what its API promises", s.name).WithHint("check the base URL: is it that of a model service?")
	}
}

// host is what messages call the address of the service.
func (s *service) host() string {
	if u, err := url.Parse(s.base); err == nil {
		return u.Host
	}
	return s.name
}

// innermost is the text of err without the method and URL that net/http puts around it.
func innermost(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// isNetwork reports whether reading a stream failed, as opposed to understanding it.
func isNetwork(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "stream error")
}

// retryAfter reads the header of that name: seconds or a date (RFC 9110, 10.2.3).
func retryAfter(header http.Header, now time.Time) (pause time.Duration, said bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 && seconds < 1e6 {
		return time.Duration(seconds * float64(time.Second)), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}
