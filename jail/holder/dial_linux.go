package holder

import (
	"net/netip"
	"os"
	"time"

	"playground/localtcp"
	"playground/seqpacket"
)

// Bounds of connecting to a program in the sandbox. A connection on loopback is made at once, unless the program does not
// take it.
const (
	dialTime = 2 * time.Second
	maxDials = 128 // at once
)

// serveDial connects to the one address that comes on conn, from inside the tenant's network, and sends the connection back.
func (h *holder) serveDial(conn *seqpacket.Conn) {
	defer conn.Close()
	defer h.dials.Add(-1)
	if h.dials.Add(1) > maxDials {
		send(conn, Reply{Error: "too many connections are being made"})
		return
	}
	conn.SetDeadline(time.Now().Add(2 * dialTime))
	text, files, err := conn.Recv(make([]byte, 256))
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		return
	}
	// Without a network of its own the sandbox's loopback would be the host's.
	if !h.cfg.Isolated || !h.cfg.Loopback {
		send(conn, Reply{Error: "the sandbox has no network of its own"})
		return
	}
	var file *os.File
	to, err := netip.ParseAddrPort(string(text))
	if err == nil {
		file, err = localtcp.Dial(to, time.Now().Add(dialTime))
	}
	if err != nil {
		send(conn, Reply{Error: err.Error()})
		return
	}
	defer file.Close()
	send(conn, Reply{}, file)
}
