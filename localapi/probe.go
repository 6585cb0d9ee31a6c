package localapi

import (
	"context"
	"fmt"
	"os"
	"time"
)

// A Probe is what can be told of a daemon from outside.
type Probe struct {
	PID   int32     // the process that listens, as the kernel recorded it
	UID   uint32    // its user
	Since time.Time // when its socket was made
}

// Probe connects to the daemon and says who it is; its error is that of Do. No request is sent.
func (c *Client) Probe(ctx context.Context) (Probe, error) {
	conn, err := dial(ctx, c.path)
	if err != nil {
		return Probe{}, c.callError(ctx, err)
	}
	defer conn.Close()
	// On the connecting side the credentials are the listener's, taken at listen(2).
	peer, err := peerOfConn(conn)
	if err != nil {
		return Probe{}, fmt.Errorf("cannot probe %s: %w", c.Daemon, err)
	}
	info, err := os.Lstat(c.path)
	if err != nil {
		return Probe{}, c.callError(ctx, err)
	}
	return Probe{PID: peer.PID, UID: peer.UID, Since: info.ModTime()}, nil
}
