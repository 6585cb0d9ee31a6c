package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// bufferSize holds most answers whole, which then go out with one write.
const bufferSize = 16 << 10

// A forward is one request on its way.
type forward struct {
	gateway *Gateway
	tenant  *tenant
	ctx     context.Context // the tenant's, as it was when the request came
	w       http.ResponseWriter
	r       *http.Request
	body    []byte

	session  *session    // the request names it, or its answer began it
	starting bool        // holds a place for a new session
	header   http.Header // of the worker's answer, as far as the client gets it
	status   int         // that the client got; 0 = none yet
	cut      bool        // the answer is incomplete and its client must see that
	whole    bool        // the client has all of the answer, whatever is still done here
	placed   bool        // has a place among the exchanges
}

// initialize forwards an initialize request, if the tenant may have one more session.
func (x *forward) initialize() {
	g, t := x.gateway, x.tenant
	if !g.reserve(t) {
		x.w.Header().Set("Retry-After", "60")
		x.refuse(tooManySessions())
		return
	}
	x.starting = true
	defer func() {
		if x.starting { // it was refused or failed before it became a session
			g.release(t)
			return
		}
		if x.session == nil {
			return
		}
		if x.status/100 != 2 { // the answer did not come after all, so nobody knows the session's id
			g.close(t, x.session)
		}
		g.leave(t, x.session)
	}()
	x.run(x.ctx)
}

// inSession forwards a request that names a session.
func (x *forward) inSession(public string) {
	g, t := x.gateway, x.tenant
	s := g.enter(t, public)
	if s == nil {
		unknownSession(x.w, x.id())
		return
	}
	defer g.leave(t, s)
	x.session = s
	if x.r.Method != http.MethodDelete {
		x.run(s.ctx)
		return
	}
	if s.upstream == "" { // the worker has none to close
		g.close(t, s)
		x.w.WriteHeader(http.StatusNoContent)
		return
	}
	defer func() {
		// A worker may refuse to end sessions. In all other cases the public one ends, even where what became of the worker's
		// is not known.
		if x.status != http.StatusMethodNotAllowed && x.status != http.StatusTooManyRequests {
			g.close(t, s)
		}
	}()
	x.run(x.ctx) // this exchange outlives the session's others
}

// run takes a place and makes the exchange; end is the context of what it belongs to.
func (x *forward) run(end context.Context) {
	g, t := x.gateway, x.tenant
	stream := x.r.Method == http.MethodGet
	if !g.begin(t, stream) {
		x.refuse(tooManyRequests())
		return
	}
	x.placed = true
	limit := g.options.AnswerTime
	if stream {
		limit = g.options.StreamTime
	}
	ctx, cancel := context.WithCancelCause(x.r.Context())
	stop := context.AfterFunc(end, func() { cancel(errClosed) })
	timer := time.AfterFunc(limit, func() { cancel(errTimeout) })
	began := time.Now()
	outcome, err := x.exchange(ctx)
	took := time.Since(began)
	timer.Stop()
	stop()
	cancel(nil)
	x.leavePlace()
	if outcome == Answered {
		g.prepare(t, began, x.whole)
	}
	g.options.Observe(Exchange{Tenant: t.worker.Tenant, Method: x.r.Method, Outcome: outcome, Status: x.status, Took: took, Err: err})
	if x.cut {
		panic(http.ErrAbortHandler) // net/http's way to end a connection in the middle of an answer
	}
}

// leavePlace gives the place back, once.
func (x *forward) leavePlace() {
	if x.placed {
		x.placed = false
		x.gateway.end(x.tenant, x.r.Method == http.MethodGet)
	}
}

// exchange sends the request and passes the answer on.
func (x *forward) exchange(ctx context.Context) (Outcome, error) {
	t, upstream := x.tenant, ""
	if x.session != nil {
		upstream = x.session.upstream
	}
	l, err := x.gateway.connect(ctx, t)
	if err != nil {
		if ctx.Err() == nil {
			x.refuse(unreachable())
			return Unreachable, err
		}
		return x.failed(ctx, err) // says that the outcome is unknown, which is less than is known, but true
	}
	defer l.close()
	response, err := l.roundTrip(newRequest(x.r.Method, t.worker.Address, up(x.r.Header, *t.worker.token, upstream), x.body))
	if err != nil {
		return x.failed(ctx, err)
	}
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired, code/100 == 3:
		x.refuse(rejected())
		return Rejected, errors.New("the worker answered with status " + strconv.Itoa(code))
	case response.ContentLength > x.gateway.options.ResponseBytes:
		x.refuse(tooLarge())
		return TooLarge, errors.New("the worker announced " + strconv.FormatInt(response.ContentLength, 10) + " bytes")
	}
	if err := x.translate(response); err != nil {
		return x.failed(ctx, err)
	}
	return x.relay(ctx, response)
}

// translate deals with the session of an answer and makes the client's headers.
func (x *forward) translate(response *http.Response) error {
	x.header = http.Header{}
	id, ok := upstreamSession(response.Header)
	switch {
	case !ok:
		return errors.New("the worker's session id is malformed")
	case x.starting && response.StatusCode/100 == 2:
		x.starting = false
		if x.session = x.gateway.open(x.ctx, x.tenant, id); x.session == nil {
			return errClosed
		}
		x.header.Set(sessionHeader, x.session.public)
	case x.session != nil && x.r.Method == http.MethodDelete && response.StatusCode != http.StatusMethodNotAllowed:
		x.gateway.close(x.tenant, x.session) // before the client can know
	case x.session != nil && response.StatusCode == http.StatusNotFound:
		x.gateway.drop(x.tenant, x.session) // the client begins anew
	case x.session != nil && id != "" && id == x.session.upstream:
		x.header.Set(sessionHeader, x.session.public)
	}
	secrets := []string{*x.tenant.worker.token, id, ""}
	if x.session != nil {
		secrets[2] = x.session.upstream
	}
	down(x.header, response.Header, secrets...)
	return nil
}

// relay passes the body on as it comes.
func (x *forward) relay(ctx context.Context, response *http.Response) (Outcome, error) {
	if isEvents(response.Header) {
		return x.relayEvents(ctx, response)
	}
	held := x.gateway.buffers.Get().(*[]byte)
	defer x.gateway.buffers.Put(held)
	buffer := *held
	n, err := fill(response.Body, buffer)
	switch {
	case errors.Is(err, io.EOF): // all of it
		if response.StatusCode != http.StatusNoContent {
			x.header.Set("Content-Length", strconv.Itoa(n))
		}
		x.head(response.StatusCode)
		return x.sent(buffer[:n])
	case err != nil:
		return x.failed(ctx, wordless(err))
	}
	if response.ContentLength >= 0 {
		x.header.Set("Content-Length", strconv.FormatInt(response.ContentLength, 10))
	}
	x.head(response.StatusCode)
	return x.pump(ctx, response.Body, buffer, n, func([]byte) error { return nil })
}

// relayEvents passes a stream on; each piece goes out as soon as it is here.
func (x *forward) relayEvents(ctx context.Context, response *http.Response) (Outcome, error) {
	if response.ContentLength >= 0 {
		x.header.Set("Content-Length", strconv.FormatInt(response.ContentLength, 10))
	}
	x.head(response.StatusCode)
	control := http.NewResponseController(x.w)
	if err := control.Flush(); err != nil {
		return Left, err
	}
	var tail eventTail
	outcome, err := x.pump(ctx, response.Body, make([]byte, 4<<10), 0, func(p []byte) error {
		tail.write(p)
		return control.Flush()
	})
	switch {
	case outcome == TimedOut && x.r.Method == http.MethodGet:
		x.cut = false // it is complete: its client opens another one
		return Answered, nil
	case x.cut && outcome != Left && plain(response) && tail.between() && !tail.ids && x.id() != nil:
		// The worker's part is over. Whoever waits for its answer is told by an event of ours. A client that can take up the
		// stream where it broke is not: the answer may still come.
		x.cut = false
		refuseEvent(x.w, x.id(), refusalOf(outcome))
		_ = control.Flush() // the client has left: nobody to tell
	}
	return outcome, err
}

// plain reports whether something can be added to a stream: neither its length is announced nor is it compressed.
func plain(response *http.Response) bool {
	return response.ContentLength < 0 && response.Header.Get("Content-Encoding") == ""
}

// pump copies from the worker to the client. Of n bytes that are in the buffer already it sends those first.
func (x *forward) pump(ctx context.Context, from io.Reader, buffer []byte, n int, after func([]byte) error) (Outcome, error) {
	var err error
	for total := int64(0); ; {
		total += int64(n)
		if total > x.gateway.options.ResponseBytes {
			x.cut = true
			return TooLarge, errAnswer
		}
		if n > 0 {
			if _, writeErr := x.w.Write(buffer[:n]); writeErr != nil {
				return Left, writeErr
			}
			if afterErr := after(buffer[:n]); afterErr != nil {
				return Left, afterErr
			}
		}
		if errors.Is(err, io.EOF) {
			return Answered, nil
		}
		if err != nil {
			x.cut = true
			return outcomeOf(ctx, x.r), wordless(err)
		}
		n, err = from.Read(buffer)
	}
}

// sent writes a whole answer at once, and before what is still to do with the worker's connection.
func (x *forward) sent(p []byte) (Outcome, error) {
	x.leavePlace() // or the client's next request could find it taken
	_, err := x.w.Write(p)
	if err == nil || len(p) == 0 { // some statuses have no body
		err = http.NewResponseController(x.w).Flush()
	}
	if err != nil {
		return Left, err
	}
	x.whole = true
	return Answered, nil
}

func (x *forward) head(status int) {
	x.status = status
	maps.Copy(x.w.Header(), x.header)
	x.w.WriteHeader(status)
}

// id is the request's, for an answer of our own; few requests need one.
func (x *forward) id() json.RawMessage { return peek(x.r, x.body).id }

func (x *forward) refuse(f refusal) {
	x.status = f.status
	f.write(x.w, x.id())
}

// failed answers a request whose answer did not come, unless nobody waits for it.
func (x *forward) failed(ctx context.Context, err error) (Outcome, error) {
	outcome := outcomeOf(ctx, x.r)
	if x.cut = outcome == Left; !x.cut {
		x.refuse(refusalOf(outcome))
	}
	return outcome, err
}

// outcomeOf says why there is no (whole) answer.
func outcomeOf(ctx context.Context, r *http.Request) Outcome {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return Broken
	case errors.Is(cause, errTimeout):
		return TimedOut
	case errors.Is(cause, errClosed):
		return Closed
	default:
		return Left
	}
}

func refusalOf(o Outcome) refusal {
	switch o {
	case TimedOut:
		return late()
	case Closed:
		return ended()
	case TooLarge:
		return tooLarge()
	}
	return broken()
}

// fill reads until the buffer is full or the body ends, which is io.EOF.
func fill(from io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var more int
		more, err = from.Read(buffer[n:])
		n += more
	}
	return n, err
}
