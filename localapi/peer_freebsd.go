package localapi

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOfFD asks LOCAL_PEERCRED, unix(4). unix.GetsockoptXucred would do, but hides the pid: xucred ends in a union that
// the generated type leaves blank.
func peerOfFD(fd int) (Peer, error) {
	const solLocal = 0 // SOL_LOCAL of sys/un.h
	var buf [xucredBytes]byte
	size := uint32(len(buf)) // socklen_t
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), solLocal, unix.LOCAL_PEERCRED,
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return Peer{}, errno
	}
	return decodeXucred(buf[:size])
}
