package localapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
)

// A Peer is who opened the connection, as the kernel recorded it when it did. A jail's root looks like the host's, so a
// socket that trusts user ids must never be reachable from a jail.
type Peer struct {
	UID uint32 // effective user id
	PID int32  // for logs; a pid is soon reused, so nothing is decided by it
	Err error  // not nil: the peer is unknown, and the other fields say nothing
}

// nobody is the UID of an unknown peer: a forgotten look at Err must not find root's zero.
const nobody = math.MaxUint32

type peerKey struct{}

// errNoPeer is a request that did not come through a server made by Server.
var errNoPeer = errors.New("the connection has no peer credentials")

// PeerOf returns the peer of a request's context.
func PeerOf(ctx context.Context) Peer {
	if p, ok := ctx.Value(peerKey{}).(Peer); ok {
		return p
	}
	return Peer{UID: nobody, Err: errNoPeer}
}

// ConnContext puts the connection's peer into the context; it is for http.Server.ConnContext. It never refuses: the
// access rule of each route does, with an answer.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	p, err := peerOfConn(conn)
	if err != nil {
		p = Peer{UID: nobody, Err: err}
	}
	return context.WithValue(ctx, peerKey{}, p)
}

func peerOfConn(conn net.Conn) (Peer, error) {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return Peer{}, errNoPeer
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("cannot read peer credentials: %w", err)
	}
	var p Peer
	var peerErr error
	if err := raw.Control(func(fd uintptr) { p, peerErr = peerOfFD(int(fd)) }); err != nil {
		return Peer{}, fmt.Errorf("cannot read peer credentials: %w", err)
	}
	if peerErr != nil {
		return Peer{}, fmt.Errorf("cannot read peer credentials: %w", peerErr)
	}
	return p, nil
}
