package workapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"reflect"
	"strings"

	"playground/fault"
	"playground/record"
	"playground/workloop"
	"playground/workloop/loop"
)

// The codes of refusals that are made here. The engine has more.
const (
	codeAuthRequired   = loop.CodeAuthRequired
	codeNotFound       = loop.CodeNotFound
	codeInvalidBody    = loop.CodeInvalidBody
	codeInvalidQuery   = loop.CodeInvalidQuery
	codeNamespace      = "NAMESPACE_REJECTED"
	codeTooLarge       = loop.CodeTooLarge
	codeKindRefused    = loop.CodeKindNotAdmitted
	codeScope          = loop.CodeScopeForbidden
	codeConflict       = loop.CodeConflict
	codeUnavailable    = loop.CodeUnavailable
	codeInternal       = loop.CodeInternal
	codeMissingField   = "MISSING_FIELD"
	codeClockConflict  = "CLOCK_CONFLICT"
	codeConfigDenied   = "CONFIG_WRITE_DENIED"
	codeNotCovered     = "RUN_ACTOR_NOT_COVERED"
	codeRepoUnknown    = "REPO_UNKNOWN"
	codeBadDefinition  = "INVALID_DEFINITION"
	codeStreamLimit    = "STREAM_LIMIT"
	codeLimit          = "LIMIT_REACHED"
	codeUnsupported    = "UNSUPPORTED"
	statusClientClosed = 499 // nobody is there to read it
)

// refuse returns an error with a code.
func refuse(status int, code, format string, args ...any) *loop.Refusal {
	return &loop.Refusal{Code: code, Status: status, Message: fmt.Sprintf(format, args...)}
}

// hinted adds the next step.
func hinted(r *loop.Refusal, format string, args ...any) *loop.Refusal {
	r.Extra = map[string]any{"hint": fmt.Sprintf(format, args...)}
	return r
}

func tooLarge(limit int64) error {
	return refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "the request is over %d bytes", limit)
}

// unknownRoute refuses a request that has no route, and says which methods its path has.
func (a *API) unknownRoute(_ http.ResponseWriter, r *http.Request) error {
	refused := refuse(http.StatusNotFound, codeNotFound, "no such route: %s %.200q", r.Method, r.URL.Path)
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(other); strings.HasPrefix(pattern, method+" ") && r.URL.Path == path.Clean(r.URL.Path) {
			methods = append(methods, method)
		}
	}
	if len(methods) > 0 {
		hinted(refused, "this path takes %s", strings.Join(methods, ", "))
	}
	return refused
}

// refusal makes an answer of any error. What is not the caller's fault is told without its text, which may name paths.
func refusal(err error) (r *loop.Refusal, internal bool) {
	if r, ok := errors.AsType[*loop.Refusal](err); ok {
		return r, r.Status >= http.StatusInternalServerError && r.Code == codeInternal
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return refuse(statusClientClosed, codeUnavailable, "the request was given up"), false
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && errors.Is(err, record.ErrDamaged) {
		return hinted(refuse(http.StatusServiceUnavailable, codeUnavailable, "%s", f.Message), "%s", workloop.DamagedHint), false
	}
	status, code := http.StatusInternalServerError, codeInternal
	switch fault.KindOf(err) {
	case fault.Invalid:
		status, code = http.StatusUnprocessableEntity, codeInvalidBody
		if errors.Is(err, record.ErrNamespace) {
			status, code = http.StatusForbidden, codeNamespace
		}
	case fault.NotFound:
		status, code = http.StatusNotFound, codeNotFound
	case fault.Denied:
		status, code = http.StatusForbidden, codeScope
	case fault.Exists, fault.Busy, fault.NotOpen:
		status, code = http.StatusConflict, codeConflict
	case fault.Limit:
		status, code = http.StatusTooManyRequests, codeLimit
	case fault.TooLarge:
		status, code = http.StatusRequestEntityTooLarge, codeTooLarge
	case fault.Unavailable, fault.ProofLost:
		status, code = http.StatusServiceUnavailable, codeUnavailable
	case fault.Unsupported:
		status, code = http.StatusNotImplemented, codeUnsupported
	}
	if code == codeInternal {
		return refuse(status, code, "internal error"), true
	}
	r = refuse(status, code, "%s", err.Error())
	if hint := fault.HintOf(err); hint != "" {
		hinted(r, "%s", hint)
	}
	return r, false
}

// fail answers with an error.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	answer, internal := refusal(err)
	if internal && a.options.OnError != nil {
		a.options.OnError(r, err)
	}
	reply(w, answer.Status, answer.Body())
}

// Refuse answers with an error in the form of the API, for whoever refuses a request before it gets here.
func Refuse(w http.ResponseWriter, status int, message, hint string) {
	code := codeInternal
	switch status {
	case http.StatusUnauthorized:
		code = codeAuthRequired
	case http.StatusForbidden:
		code = codeScope
	case http.StatusServiceUnavailable:
		code = codeUnavailable
	case http.StatusTooManyRequests:
		code = codeLimit
	}
	r := refuse(status, code, "%s", message)
	if hint != "" {
		hinted(r, "%s", hint)
	}
	reply(w, status, r.Body())
}

// reply sends v as JSON.
func reply(w http.ResponseWriter, status int, v any) {
	body, err := encode(v)
	if err != nil { // our own types do not do that
		status, body = http.StatusInternalServerError, []byte(`{"object":"error","code":"INTERNAL","message":"cannot encode the answer"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller has left: there is nobody to tell
}

// decode reads the request's body as exactly one JSON object into v; an unknown field is refused.
func decode(r *http.Request, v any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(v)
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		return refuse(http.StatusUnprocessableEntity, codeInvalidBody, "there is data after the JSON value")
	}
	if r, ok := errors.AsType[*loop.Refusal](err); ok {
		return r
	}
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "json: unknown field "); unknown {
		return hinted(refuse(http.StatusUnprocessableEntity, codeInvalidBody, "cannot read the body: there is no field %.100s", name),
			"the fields are %s", strings.Join(fieldsOf(v), ", "))
	}
	switch wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); {
	case ok && wrong.Field == "":
		text = fmt.Sprintf("it is a JSON %s, not a JSON object", wrong.Value)
	case ok:
		text = fmt.Sprintf("field %q cannot hold a JSON %s", wrong.Field, wrong.Value)
	case errors.Is(err, io.EOF):
		text = "the body is empty: send a JSON object"
	case errors.Is(err, io.ErrUnexpectedEOF):
		text = "the JSON value is cut off"
	}
	return refuse(http.StatusUnprocessableEntity, codeInvalidBody, "cannot read the body: %.300s", text)
}

// fieldsOf returns the names that the object has which v, a pointer to a struct, is read from.
func fieldsOf(v any) (names []string) {
	for field := range reflect.TypeOf(v).Elem().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// missing is the refusal of a body that lacks a field.
func missing(field string) error {
	return refuse(http.StatusBadRequest, codeMissingField, "the field %q is missing", field)
}
