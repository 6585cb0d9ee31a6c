package bsdproc

// A JailState is whether the kernel still knows a jail.
type JailState uint8

// The states. The zero value says nothing, so that a forgotten error cannot read as a proof.
const (
	JailUnknown JailState = iota
	JailAlive
	JailDying // removed: nothing new can run in it, but something still holds a reference
	JailGone  // no process, socket or file has its credential any more
)

// String returns the state in one lower-case word.
func (s JailState) String() string {
	switch s {
	case JailAlive:
		return "alive"
	case JailDying:
		return "dying"
	case JailGone:
		return "gone"
	}
	return "unknown"
}
