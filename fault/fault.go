// Package fault is the one kind of error that crosses Playground's borders: a text a person can act on, a stable kind
// that programs branch on, and a hint that says what to do next. It travels unchanged over the local sockets, so a
// sentinel compared in the command line is the one the root daemon returned.
package fault

import (
	"errors"
	"fmt"
)

// A Kind is a stable class of error. It is itself an error, so that errors.Is(err, fault.NotFound) reads naturally.
type Kind string

// The kinds. They are part of the local API: never rename one.
const (
	Invalid     Kind = "invalid"     // the request is malformed or out of range
	NotFound    Kind = "not_found"   // no such thing, or not the caller's
	Denied      Kind = "denied"      // the caller may not do this
	Exists      Kind = "exists"      // the name is taken
	Busy        Kind = "busy"        // refused because something is running
	Limit       Kind = "limit"       // an admission limit is reached
	TooLarge    Kind = "too_large"   // the payload is over its bound
	NotOpen     Kind = "not_open"    // the tenant has no open session
	Unavailable Kind = "unavailable" // a daemon or a host ability is missing
	Unsupported Kind = "unsupported" // this platform or configuration cannot do it
	ProofLost   Kind = "proof_lost"  // clean-up was not proved; starts are refused
	Internal    Kind = "internal"    // a bug or a broken host
)

// Error returns the kind's name with spaces.
func (k Kind) Error() string { return string(k) }

// An Error has a kind, a text and an optional hint. Message is lower case, without a full stop, and safe to show to the
// caller it is returned to: it never holds a secret or another tenant's name.
type Error struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Err     error  `json:"-"` // the cause, for logs and errors.Is; never sent over the wire
}

// New returns an Error of kind with a formatted message.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an Error of kind whose message is the formatted text followed by the cause.
func Wrap(kind Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...) + ": " + err.Error(), Err: err}
}

// Hide returns an Error of kind whose message is the formatted text alone. The cause, which may name paths and settings of the
// host that are not for whoever reads the message, is kept for the log of the daemon that met it.
func Hide(kind Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Err: err}
}

// WithHint sets the hint, the next step for the reader, and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Error returns the message alone; the hint is shown apart.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is e's kind.
func (e *Error) Is(target error) bool {
	kind, ok := target.(Kind)
	return ok && kind == e.Kind
}

// KindOf returns the kind of the first Error in err's chain, Internal if there is none, and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// HintOf returns the hint of the first Error in err's chain, or "".
func HintOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Hint
	}
	return ""
}
