package localapi

import "golang.org/x/sys/unix"

// peerOfFD asks SO_PEERCRED, unix(7).
func peerOfFD(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	return Peer{UID: cred.Uid, PID: cred.Pid}, nil
}
