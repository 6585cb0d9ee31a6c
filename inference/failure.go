package inference

import (
	"context"
	"time"

	"playground/fault"
)

// A Failure is a stable class of what went wrong with a call.
type Failure string

// The failures.
const (
	Authentication Failure = "authentication"  // the service does not accept the key
	RateLimited    Failure = "rate_limited"    // too many calls or tokens in a while
	Overloaded     Failure = "overloaded"      // the service cannot answer now
	InvalidRequest Failure = "invalid_request" // the service refuses this request, and would again
	Network        Failure = "network"         // not reached, or cut off in the middle
	Malformed      Failure = "malformed"       // an answer that is not what the API promises, or too long
	Cancelled      Failure = "cancelled"       // the context ended
)

// An Error is a call that failed. It has no key in it, and nothing of the request.
type Error struct {
	Failure    Failure
	Status     int           // of the HTTP response; 0 without one
	RetryAfter time.Duration // as the service asked; 0 where it did not
	Started    bool          // the service had begun to answer, and may bill what was lost

	fault *fault.Error
	cause error // the context's error, for errors.Is
}

// Error returns the message.
func (e *Error) Error() string { return e.fault.Message }

// Unwrap returns the fault with kind and hint, and the error of the context if that is why.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.fault}
	}
	return []error{e.fault, e.cause}
}

// NewError returns an Error of the fault kind that goes with failure.
func NewError(failure Failure, format string, args ...any) *Error {
	kinds := map[Failure]fault.Kind{
		Authentication: fault.Denied, RateLimited: fault.Limit, Overloaded: fault.Unavailable, InvalidRequest: fault.Invalid,
		Network: fault.Unavailable, Malformed: fault.Unavailable, Cancelled: fault.Unavailable,
	}
	return &Error{Failure: failure, fault: fault.New(kinds[failure], format, args...)}
}

// EndedBy is the Error of a context that ended.
func EndedBy(ctx context.Context, started bool) *Error {
	e := NewError(Cancelled, "cannot ask the model: %v", ctx.Err())
	e.Started, e.cause = started, ctx.Err()
	return e
}

// WithHint sets the next step for the reader and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.fault.Hint = fault.New("", format, args...).Message
	return e
}
