package suite

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"playground/fault"
)

// A notifySocket receives one daemon's sd_notify(3) messages.
type notifySocket struct {
	path  string
	conn  *net.UnixConn
	ready chan struct{} // holds one word when READY=1 came in
	done  chan struct{}
}

func listenNotify(path string) (*notifySocket, error) {
	// The state folder's lock is held, so whatever lies there was left by a process that is gone.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot prepare the run folder")
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot listen for the daemons' readiness")
	}
	n := &notifySocket{path: path, conn: conn, ready: make(chan struct{}, 1), done: make(chan struct{})}
	go n.receive()
	return n, nil
}

func (n *notifySocket) receive() {
	defer close(n.done)
	buffer := make([]byte, 4096)
	for {
		count, err := n.conn.Read(buffer)
		if err != nil {
			return // closed
		}
		if slices.Contains(strings.Split(string(buffer[:count]), "\n"), "READY=1") {
			select {
			case n.ready <- struct{}{}:
			default:
			}
		}
	}
}

// drain forgets what an earlier process said.
func (n *notifySocket) drain() {
	select {
	case <-n.ready:
	default:
	}
}

func (n *notifySocket) close() {
	_ = n.conn.Close()
	<-n.done
	_ = os.Remove(n.path) // a leftover is removed at the next start
}
