package seqpacket

import "golang.org/x/sys/unix"

const sendFlags = unix.MSG_NOSIGNAL

// recordsFlow: a message that is cut short has MSG_TRUNC, and MSG_EOR is not set on any.
const recordsFlow = false

// enlarge has nothing to do: the default buffer holds the largest message.
func enlarge(int) error { return nil }
