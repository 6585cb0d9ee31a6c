package doors

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"playground/fault"
	"playground/workloop/loop"
)

// How long a worker may take to send a body, and to take an answer.
const (
	readTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second
)

// NewHandler returns the handler of the doors. find returns the run that a bearer belongs to; it must compare in constant
// time and forget a run that has ended.
func NewHandler(find func(bearer string) (loop.Kernel, Bounds, bool)) http.Handler {
	return handler{find}
}

type handler struct {
	find func(bearer string) (loop.Kernel, Bounds, bool)
}

// ServeHTTP answers one request. The request line is compared as it was sent, before anything is parsed out of it: no
// second spelling of a door is a door.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Before all else: net/http reads what is left of a body before it sends an answer, however slowly it comes.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return
	}
	limit := bodyLimit(r.RequestURI)
	if limit == 0 || r.Method != http.MethodPost || r.Proto != "HTTP/1.1" {
		answerError(w, refuse(http.StatusNotFound, loop.CodeNotFound, "there is no such door"))
		return
	}
	bearer, ok := bearerOf(r)
	if !ok {
		answerError(w, refuse(http.StatusUnauthorized, loop.CodeAuthRequired, "a bearer is required"))
		return
	}
	kernel, bounds, ok := h.find(bearer)
	if !ok {
		answerError(w, refuse(http.StatusUnauthorized, loop.CodeAuthRequired, "the bearer is not valid, or its run has ended"))
		return
	}
	body, err := readBody(w, r, limit)
	if err != nil {
		answerError(w, refusalOf(r.RequestURI, err))
		return
	}
	v, err := open(r.Context(), r.RequestURI, kernel, bounds, body)
	if err != nil {
		answerError(w, refusalOf(r.RequestURI, err))
		return
	}
	answer(w, http.StatusOK, v)
}

// open passes a request through its door.
func open(ctx context.Context, door string, kernel loop.Kernel, bounds Bounds, body []byte) (any, error) {
	switch door {
	case DoorVerdict:
		return verdict(ctx, kernel, body)
	case DoorCall:
		return call(ctx, kernel, body)
	case DoorRecords:
		return appendRecord(ctx, kernel, bounds, body)
	case DoorQuery:
		return query(ctx, kernel, bounds, body)
	case DoorMessages:
		return messages(ctx, kernel, body)
	}
	return nil, refuse(http.StatusNotFound, loop.CodeNotFound, "there is no such door")
}

// bearerOf returns the bearer of a request that has exactly one.
func bearerOf(r *http.Request) (string, bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", false
	}
	scheme, bearer, ok := strings.Cut(headers[0], " ")
	return bearer, ok && strings.EqualFold(scheme, "Bearer") && bearer != "" && !strings.ContainsAny(bearer, " \t,")
}

// readBody reads a body whose length is told. The deadline ends with it: the answer of a model may take minutes, and net/http
// watches the connection meanwhile.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	switch {
	case r.ContentLength < 0 || len(r.TransferEncoding) > 0:
		w.Header().Set("Connection", "close") // and do not wait for the rest
		return nil, refuse(http.StatusLengthRequired, loop.CodeInvalidBody, "a body with a content-length is required")
	case r.ContentLength > limit:
		w.Header().Set("Connection", "close")
		return nil, tooLarge()
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, refuse(http.StatusBadRequest, loop.CodeInvalidBody, "the body ends early")
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body, nil
}

// answer sends v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	switch {
	case err != nil:
		answerError(w, refuse(http.StatusInternalServerError, loop.CodeInternal, "the answer cannot be encoded"))
		return
	case len(body) > maxAnswer:
		answerError(w, refuse(http.StatusInternalServerError, loop.CodeTooLarge, "the answer is too large"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	// A worker that does not take its answer must not keep a thread of the daemon; not every writer has a deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the connection is gone, or the deadline is over: net/http closes it
}

// answerError sends a refusal. Its extra fields are the kernel's own and small.
func answerError(w http.ResponseWriter, r *loop.Refusal) {
	status := r.Status
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	body, err := json.Marshal(r.Body())
	if err != nil {
		body = []byte(`{"object":"error","code":"` + loop.CodeInternal + `","message":"the refusal cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// refusalOf returns what a worker is told of an error. What is not meant for callers stays in the daemon.
func refusalOf(door string, err error) *loop.Refusal {
	if kind, exhausted := loop.BudgetKind(err); exhausted {
		return loop.ErrBudget(kind)
	}
	if r, ok := errors.AsType[*loop.Refusal](err); ok {
		return r
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return refuse(http.StatusInternalServerError, loop.CodeInternal, "the kernel cannot do this")
	}
	switch f.Kind {
	case fault.Invalid:
		if door == DoorQuery {
			return refuse(http.StatusBadRequest, loop.CodeInvalidQuery, f.Message)
		}
		return refuse(http.StatusUnprocessableEntity, loop.CodeInvalidBody, f.Message)
	case fault.NotFound:
		return refuse(http.StatusNotFound, loop.CodeNotFound, f.Message)
	case fault.Denied:
		return refuse(http.StatusForbidden, loop.CodeScopeForbidden, f.Message)
	case fault.Exists:
		return refuse(http.StatusConflict, loop.CodeConflict, f.Message)
	case fault.TooLarge:
		return refuse(http.StatusRequestEntityTooLarge, loop.CodeTooLarge, f.Message)
	case fault.Busy, fault.Limit, fault.Unavailable:
		return refuse(http.StatusServiceUnavailable, loop.CodeUnavailable, f.Message)
	}
	return refuse(http.StatusInternalServerError, loop.CodeInternal, "the kernel cannot do this")
}
