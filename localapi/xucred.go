package localapi

import (
	"encoding/binary"
	"fmt"
)

// The layout of struct xucred (FreeBSD sys/ucred.h, LP64), which LOCAL_PEERCRED fills in. It is decoded here, without a
// build tag, so that it is tested on every platform:
//
//	offset  0  u_int   cr_version      must be XUCRED_VERSION, 0
//	offset  4  uid_t   cr_uid          effective user id at connect(2)
//	offset  8  short   cr_ngroups
//	offset 12  gid_t   cr_groups[16]
//	offset 80  union { void *; pid_t cr_pid; }
const (
	xucredBytes   = 88
	xucredVersion = 0
	xucredUID     = 4
	xucredPID     = 80
)

// decodeXucred reads one xucred as the kernel wrote it.
func decodeXucred(b []byte) (Peer, error) {
	if len(b) != xucredBytes {
		return Peer{}, fmt.Errorf("xucred has %d bytes, want %d", len(b), xucredBytes)
	}
	if v := binary.NativeEndian.Uint32(b); v != xucredVersion {
		return Peer{}, fmt.Errorf("xucred has version %d, want %d", v, xucredVersion)
	}
	return Peer{
		UID: binary.NativeEndian.Uint32(b[xucredUID:]),
		PID: int32(binary.NativeEndian.Uint32(b[xucredPID:])),
	}, nil
}
