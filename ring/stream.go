package ring

import (
	"playground/fault"
)

// A Stream says where output came from.
type Stream uint8

// The streams. The zero Stream is not one of them, so that a forgotten field is seen.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// streams sizes the tables that are indexed by Stream; entry 0 is not used.
const streams = int(Stderr) + 1

// String returns "stdout", "stderr" or, for what is not a stream, "unknown".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "unknown"
}

// MarshalText returns the stream's name, which is also its form in JSON.
func (s Stream) MarshalText() ([]byte, error) {
	if s != Stdout && s != Stderr {
		return nil, fault.New(fault.Internal, "cannot encode stream %d", uint8(s))
	}
	return []byte(s.String()), nil
}

// UnmarshalText takes a stream's name.
func (s *Stream) UnmarshalText(text []byte) error {
	switch string(text) {
	case "stdout":
		*s = Stdout
	case "stderr":
		*s = Stderr
	default:
		return fault.New(fault.Invalid, "unknown stream %q", text)
	}
	return nil
}

// mustBeStream panics for what is not a stream: a writer that made one up has a bug, and to drop its output silently
// would hide it.
func mustBeStream(s Stream) {
	if s != Stdout && s != Stderr {
		panic("internal error: ring: write to an unknown stream")
	}
}
