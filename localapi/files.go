package localapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"playground/fault"
)

// SendFiles sends data, at least one byte, with the descriptors of files riding on its first byte (SCM_RIGHTS). The
// caller keeps its own descriptors and closes them.
func SendFiles(conn *net.UnixConn, data []byte, files ...*os.File) error {
	if len(data) == 0 {
		return errors.New("internal error: descriptors need a byte to ride on")
	}
	fds := make([]int, 0, len(files))
	for _, f := range files {
		// Not f.Fd(), which may put the descriptor into blocking mode for everybody who shares it.
		raw, err := f.SyscallConn()
		if err != nil {
			return fmt.Errorf("cannot send file %q: %w", f.Name(), err)
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return fmt.Errorf("cannot send file %q: %w", f.Name(), err)
		}
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	n, _, err := conn.WriteMsgUnix(data, oob, nil)
	runtime.KeepAlive(files) // a finalizer must not close what the kernel is about to copy
	if err == nil && n < len(data) {
		_, err = conn.Write(data[n:])
	}
	if err != nil {
		return fmt.Errorf("cannot send %d files: %w", len(files), err)
	}
	return nil
}

// ReceiveFiles reads once: up to maxData bytes and maxFiles descriptors. All descriptors are close-on-exec. More of them
// than asked for, a directory among them or a truncated control message is an error, and then every one that came is
// closed: a directory's descriptor would lead out of a jail, and jail_attach(2) refuses a process that holds one.
func ReceiveFiles(conn *net.UnixConn, maxData, maxFiles int) ([]byte, []*os.File, error) {
	data := make([]byte, maxData)
	// Room for one more than asked for, to tell a greedy peer from a correct one. The padding may admit yet another.
	oob := make([]byte, unix.CmsgSpace((maxFiles+1)*4))
	n, oobn, flags, err := receive(conn, data, oob)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot receive files: %w", err)
	}
	if n == 0 && oobn == 0 {
		return nil, nil, io.EOF
	}
	fds, err := rights(oob[:oobn])
	switch {
	case err != nil:
	case flags&unix.MSG_CTRUNC != 0 || len(fds) > maxFiles:
		err = fault.New(fault.Invalid, "cannot receive files: more than %d descriptors were sent", maxFiles)
	case flags&unix.MSG_TRUNC != 0:
		err = fault.New(fault.Invalid, "cannot receive files: the message is over %d bytes", maxData)
	default:
		err = checkTypes(fds)
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "received")
	}
	return data[:n], files, nil
}

// receive is ReadMsgUnix, which on FreeBSD makes descriptors close-on-exec only after it has them: a program that was started
// meanwhile would inherit them.
func receive(conn *net.UnixConn, data, oob []byte) (n, oobn, flags int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, 0, err
	}
	readErr := raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, err = unix.Recvmsg(int(fd), data, oob, unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	if readErr != nil { // a deadline, or the connection was closed
		err = readErr
	}
	return n, oobn, flags, err
}

// rights returns the descriptors of all control messages, those read before an error too.
func rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot read control message")
	}
	var all []int
	var firstErr error
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil && firstErr == nil {
			firstErr = fault.Wrap(fault.Invalid, err, "cannot read control message")
		}
		all = append(all, fds...)
	}
	return all, firstErr
}

func checkTypes(fds []int) error {
	for _, fd := range fds {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("cannot look at received descriptor: %w", err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return fault.New(fault.Denied, "cannot receive files: a directory was sent")
		}
	}
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // it is ours alone and was never used
	}
}
