package seqpacket

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// sendFlags ends the record: since FreeBSD 15 a seqpacket socket is a stream of records, and a message without its end would
// run into the next (unix(4)).
const sendFlags = unix.MSG_NOSIGNAL | unix.MSG_EOR

// recordsFlow: since FreeBSD 15 the kernel tells a message that was cut short only by not telling its end, and keeps the rest for the
// next look (uipc_usrreq.c uipc_soreceive_stream_or_seqpacket); before, it sets MSG_TRUNC as well.
const recordsFlow = true

// enlarge makes room for the largest message: the default of net.local.seqpacket.maxseqpacket is far smaller. Which of the two
// buffers counts depends on the version.
func enlarge(fd int) error {
	const slack = 4096 // control messages
	for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, MaxData+slack); err != nil {
			return fmt.Errorf("cannot enlarge socket buffer (see kern.ipc.maxsockbuf): %w", err)
		}
	}
	return nil
}
