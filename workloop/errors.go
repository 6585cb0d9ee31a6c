package workloop

import (
	"errors"
	"fmt"
	"net/http"

	"playground/fault"
	"playground/workloop/loop"
)

// errPanic is the error of a panic that was caught.
func errPanic(value any) error { return fmt.Errorf("panic: %v", value) }

// queryError turns the log's error into the documented refusal.
func queryError(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	refusal, refused := errors.AsType[*loop.Refusal](err)
	switch {
	case err == nil:
		return nil
	case refused:
		return refusal
	case ok && (f.Kind == fault.Invalid || f.Kind == fault.Limit):
		refusal := refuse(loop.CodeInvalidQuery, http.StatusBadRequest, "%s", f.Message)
		if f.Hint != "" {
			hinted(refusal, "%s", f.Hint)
		}
		return refusal
	case ok && f.Kind == fault.NotFound:
		return refuse(loop.CodeNotFound, http.StatusNotFound, "%s", f.Message)
	}
	return refuse(loop.CodeUnavailable, http.StatusServiceUnavailable, "the log cannot be read")
}

// providerError is what a loop is told of a failed model call.
func providerError(err error) error {
	said := "the model call failed"
	if f, ok := errors.AsType[*fault.Error](err); ok {
		said = f.Message
	}
	return refuse(CodeProvider, http.StatusBadGateway, "%s", said)
}

// waiting is the refusal of what a run that waits for a decision cannot take.
func waiting() *loop.Refusal {
	return refuse(CodeWaiting, http.StatusConflict, "the run waits for a decision; answer its question instead")
}
