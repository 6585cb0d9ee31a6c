package workerapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"playground/confine"
	"playground/fault"
	"playground/localapi"
)

// A Client starts workers. It is safe for concurrent use.
type Client struct{ api *localapi.Client }

// NewClient returns a client of the daemon at this socket.
func NewClient(socket string) *Client {
	api := localapi.NewClient(socket)
	api.Daemon = "playground-reaperd"
	return &Client{api}
}

// A Worker is a confined process whose every layer reaperd has verified, and which has been told nothing yet. The files are the
// caller's to close. Whoever has it calls Kill in the end.
type Worker struct {
	PID      int
	Report   confine.Report
	Attempts []confine.Attempt // what the worker itself tried
	Doors    net.Conn          // the daemon's end of its only connection
	Stdin    *os.File          // for one line, then close it
	Stdout   *os.File

	conn *net.UnixConn
	life *bufio.Reader
	kill sync.Once
	wait func() (confine.Exit, error)
}

// maxStarted bounds the first message; it has some 8 KiB.
const maxStarted = 64 << 10

// Start asks for a worker. ctx bounds the start only. A layer that does not hold is an error of kind fault.Denied that names it.
func (c *Client) Start(ctx context.Context, r Request) (*Worker, error) {
	conn, err := c.api.Upgrade(ctx, Path, r)
	if err != nil {
		return nil, err
	}
	stop := localapi.Bound(ctx, conn)
	w, err := receive(conn)
	if err = stop(err); err != nil {
		if w != nil {
			w.closeFiles()
		}
		conn.Close()
		return nil, err
	}
	w.wait = sync.OnceValues(w.waitEnd)
	return w, nil
}

// receive takes the worker over.
func receive(conn *net.UnixConn) (*Worker, error) {
	data, files, err := localapi.ReceiveFiles(conn, maxStarted, 3)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot take over a worker")
	}
	life := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(data), conn), maxStarted)
	var first started
	line, err := life.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	if err == nil && len(files) != 3 {
		err = fmt.Errorf("%d descriptors came, want 3", len(files))
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, fault.Wrap(fault.Unavailable, err, "cannot take over a worker")
	}
	doors, err := net.FileConn(files[0])
	files[0].Close() // FileConn made its own
	w := &Worker{PID: first.PID, Report: first.Report, Attempts: first.Attempts, Stdin: files[1], Stdout: files[2], conn: conn, life: life}
	if err != nil {
		w.closeFiles()
		return nil, fault.Wrap(fault.Unavailable, err, "cannot take over a worker")
	}
	w.Doors = doors
	return w, nil
}

func (w *Worker) closeFiles() {
	w.Stdin.Close()
	w.Stdout.Close()
	if w.Doors != nil {
		w.Doors.Close()
	}
}

// Wait returns when the worker has ended and reaperd has proved that nothing of it is left, or has given that up. The end of ctx
// ends the waiting, not the worker. An error means that reaperd is gone, and the worker with it. It may be called again.
func (w *Worker) Wait(ctx context.Context) (confine.Exit, error) {
	type end struct {
		exit confine.Exit
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		exit, err := w.wait()
		ended <- end{exit, err}
	}()
	select {
	case e := <-ended:
		return e.exit, e.err
	case <-ctx.Done():
		return confine.Exit{}, ctx.Err()
	}
}

// waitEnd reads the last line.
func (w *Worker) waitEnd() (confine.Exit, error) {
	line, err := w.life.ReadSlice('\n')
	w.conn.Close()
	if err == nil {
		return exitOf(line)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		err = io.ErrUnexpectedEOF
	}
	return confine.Exit{Status: -1}, fault.Wrap(fault.Unavailable, err, "cannot tell how a worker ended")
}

// Kill ends the worker, whose end is then told by Wait. It may be called at any time, and again.
func (w *Worker) Kill() {
	// Half of the connection is enough to say so, and leaves the other for the answer.
	w.kill.Do(func() { w.conn.CloseWrite() })
}
