package inference

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"

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

// newError returns an Error of the fault kind that goes with failure.
func newError(failure Failure, format string, args ...any) *Error {
	kinds := map[Failure]fault.Kind{
		Authentication: fault.Denied, RateLimited: fault.Limit, Overloaded: fault.Unavailable, InvalidRequest: fault.Invalid,
		Network: fault.Unavailable, Malformed: fault.Unavailable, Cancelled: fault.Unavailable,
	}
	return &Error{Failure: failure, fault: fault.New(kinds[failure], format, args...)}
}

// cancelled is the Error of a context that ended.
func cancelled(ctx context.Context, started bool) *Error {
	e := newError(Cancelled, "cannot ask the model: %v", ctx.Err())
	e.Started, e.cause = started, ctx.Err()
	return e
}

// hint sets the next step for the reader and returns e.
func (e *Error) hint(format string, args ...any) *Error {
	e.fault.Hint = fault.New("", format, args...).Message
	return e
}

// A complaint is what both APIs say in the body of an error response and in the error event of a stream.
type complaint struct {
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// complaintOf reads body. A body that is something else, such as the page of a proxy, says nothing.
func complaintOf(body []byte) (c complaint) {
	if json.Unmarshal(body, &c) != nil {
		return complaint{}
	}
	return c
}

// ofStatus is the failure that an HTTP status tells of.
func ofStatus(status int) Failure {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Authentication
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status == http.StatusRequestTimeout, status >= 500:
		return Overloaded
	default:
		return InvalidRequest
	}
}

// ofType is the failure that the error event of a stream tells of.
func ofType(kind string) Failure {
	switch kind {
	case "authentication_error", "permission_error":
		return Authentication
	case "rate_limit_error", "rate_limit_exceeded":
		return RateLimited
	case "invalid_request_error", "not_found_error", "request_too_large", "billing_error":
		return InvalidRequest
	default:
		return Overloaded
	}
}

// refused is the Error of a service that answered with an error.
func (s *service) refused(failure Failure, status int, c complaint) *Error {
	var e *Error
	switch failure {
	case Authentication: // its message may repeat a part of the key
		e = newError(failure, "%s does not accept the key", s.name).hint("%s", s.keyHint())
	case RateLimited:
		e = newError(failure, "%s limits the rate of calls", s.name).hint("wait, or ask %s for a higher limit", s.name)
	case Overloaded:
		e = newError(failure, "%s cannot answer now (status %d)", s.name, status).hint("try again later")
	default:
		e = newError(failure, "%s refuses the request (status %d)", s.name, status).hint("check the name of the model and the base URL")
	}
	if said := s.clean(c.Error.Message); said != "" && failure != Authentication {
		e.fault.Message += ": " + said
	}
	e.Status = status
	return e
}

// keyHint says where the key is mended.
func (s *service) keyHint() string {
	if s.keyFile != "" {
		return "write a valid key of " + s.name + " to " + s.keyFile
	}
	return "set a valid key of " + s.name
}

// looksSecret finds what services print of keys, whole or with stars.
var looksSecret = regexp.MustCompile(`\b(sk|key|pk|Bearer)[-_ ][A-Za-z0-9*._-]{6,}`)

// clean makes a text of the service fit to show: one line, not long, without keys.
func (s *service) clean(text string) string {
	const most = 300
	if key := s.key(); key != "" {
		text = strings.ReplaceAll(text, key, "[key]")
	}
	text = looksSecret.ReplaceAllString(text, "[key]")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return text
}
