package holder

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"playground/seqpacket"
)

// warmIdle is how long ready inits are kept after the last start.
const warmIdle = time.Minute

// Hold is the life of a tenant's holder: "playground-supervise holder". Its process 1 keeps the tenant's namespaces and
// starts the jobs' inits inside them on request, because a multi-threaded program cannot enter a user namespace
// (setns(2)). It ends when control is closed, and the kernel ends everything in its pid namespace with it.
func Hold(control *seqpacket.Conn) error {
	if err := keepNoOtherFiles(); err != nil {
		return err
	}
	buf := make([]byte, seqpacket.MaxData)
	data, _, err := control.Recv(buf)
	if err != nil {
		return err
	}
	h := &holder{busy: make(map[*jobInit]struct{})}
	if err := json.Unmarshal(data, &h.cfg); err != nil {
		return fmt.Errorf("internal error: malformed holder configuration: %w", err)
	}
	unix.Umask(0o022) // jaild's is for its secrets; this is what commands start with
	h.idle = time.AfterFunc(warmIdle, h.drain)
	if err := h.setUp(); err != nil {
		return errors.Join(err, send(control, Reply{Error: err.Error()}))
	}
	if err := send(control, Reply{}); err != nil {
		return err
	}
	return h.serve(control, buf)
}

func (h *holder) setUp() error {
	if h.cfg.Isolated {
		if err := buildRoot(h.cfg); err != nil {
			return err
		}
		if err := confine(); err != nil {
			return err
		}
	}
	// One init up to its ready word, so that a host that forbids what inits need is found out now and not by a job.
	first, err := h.spawn()
	if err != nil {
		return err
	}
	if err := first.awaitReady(); err != nil {
		return err
	}
	h.warm = append(h.warm, first)
	return nil
}

// serve obeys jaild until it closes the connection.
func (h *holder) serve(control *seqpacket.Conn, buf []byte) error {
	for {
		data, files, err := control.Recv(buf)
		if err != nil {
			return nil // jaild is gone, and so are we
		}
		var req Request
		if err := json.Unmarshal(data, &req); err != nil {
			return fmt.Errorf("internal error: malformed request: %w", err)
		}
		switch {
		case req.Op == OpConnect && len(files) == 1:
			conn, err := seqpacket.FromFile(files[0])
			if err != nil {
				return err
			}
			go h.serveStarts(conn)
			err = send(control, Reply{})
			if err != nil {
				return err
			}
		case req.Op == OpDial && len(files) == 1:
			conn, err := seqpacket.FromFile(files[0])
			if err != nil {
				return err
			}
			go h.serveDial(conn)
			if err := send(control, Reply{}); err != nil {
				return err
			}
		case req.Op == OpStop:
			busy := h.stop()
			if err := send(control, Reply{Busy: busy}); err != nil || busy == 0 {
				return err
			}
		default:
			return fmt.Errorf("internal error: unknown request %q", req.Op)
		}
	}
}

// serveStarts hands each job's connection that arrives to an init, and answers with the init's pidfd.
func (h *holder) serveStarts(conn *seqpacket.Conn) {
	defer conn.Close()
	buf := make([]byte, 256)
	for {
		_, files, err := conn.Recv(buf)
		if err != nil {
			return
		}
		reply, pidfd := Reply{}, (*os.File)(nil)
		if len(files) != 1 {
			reply.Error = "internal error: a job's connection was expected"
		} else if pidfd, err = h.start(files[0]); err != nil {
			reply.Error = err.Error()
		}
		for _, f := range files {
			f.Close()
		}
		if pidfd == nil {
			err = send(conn, reply)
		} else {
			err = send(conn, reply, pidfd)
		}
		if err != nil {
			return
		}
	}
}

func send(conn *seqpacket.Conn, v any, files ...*os.File) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return conn.Send(data, files...)
}
