package confine

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// DoorsFD is where a worker has the connection to its doors.
const DoorsFD = 3

// Doors returns the connection to the doors that this process was started with. Call it before Enter, and once.
func Doors() (net.Conn, error) {
	var st unix.Stat_t
	if err := unix.Fstat(DoorsFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("cannot use the doors: descriptor %d is no socket", DoorsFD)
	}
	unix.CloseOnExec(DoorsFD)
	if err := unix.SetNonblock(DoorsFD, true); err != nil {
		return nil, fmt.Errorf("cannot use the doors: %w", err)
	}
	return doorway{os.NewFile(DoorsFD, "doors")}, nil
}

// A doorway is a connected stream socket by its descriptor. net.FileConn would ask for addresses and keep a copy.
type doorway struct{ *os.File }

// LocalAddr implements net.Conn.
func (doorway) LocalAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// RemoteAddr implements net.Conn.
func (doorway) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }
