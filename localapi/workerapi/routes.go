package workerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"playground/confine"
	"playground/confine/keeper"
	"playground/fault"
	"playground/localapi"
)

// Path is the one route.
const Path = "/v1/workers"

// A Service serves a daemon's workers.
type Service struct {
	keeper   *keeper.Keeper
	sessions sync.WaitGroup

	// mu guards closing, and that no session begins once it is set.
	mu      sync.Mutex
	closing bool
}

// NewService returns a service over k, which it closes.
func NewService(k *keeper.Keeper) *Service { return &Service{keeper: k} }

// Routes returns the daemon's part of the table.
func (s *Service) Routes(access localapi.Access) []localapi.Route {
	return []localapi.Route{{Method: "POST", Path: Path, Access: access, Handle: s.start}}
}

// Close refuses later starts, kills every worker, and waits until the ends are proved and told, as long as ctx does.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	if err := s.keeper.Close(ctx); err != nil {
		return err
	}
	s.sessions.Wait() // each has a line to write, with a deadline
	return nil
}

// begin begins a session, which ends with Done.
func (s *Service) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return fault.New(fault.Unavailable, "playground-reaperd is stopping").WithHint("try again once it has been started anew")
	}
	s.sessions.Add(1)
	return nil
}

// Refusing returns the same part of a daemon that cannot start any worker, which answers with the reason.
func Refusing(reason error, access localapi.Access) []localapi.Route {
	refuse := func(http.ResponseWriter, *http.Request) error { return reason }
	return []localapi.Route{{Method: "POST", Path: Path, Access: access, Handle: refuse}}
}

// start starts a worker, hands it over, and stays for its life. Once the connection is raw no error can be answered.
func (s *Service) start(w http.ResponseWriter, r *http.Request) error {
	var in Request
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.sessions.Done()
	worker, err := s.keeper.Start(r.Context(), in.Run, in.Bounds)
	if err != nil {
		return err
	}
	defer worker.Kill()
	files := []*os.File{worker.Doors, worker.Stdin, worker.Stdout}
	conn, err := localapi.Hijack(w, r)
	if err != nil {
		closeAll(files)
		return err
	}
	defer conn.Close()
	err = handOver(conn, worker, files)
	closeAll(files)
	if err == nil {
		stay(conn, worker)
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// handOver sends what the caller needs, in one message.
func handOver(conn *net.UnixConn, worker *keeper.Worker, files []*os.File) error {
	message, err := json.Marshal(started{PID: worker.PID, Report: worker.Report, Attempts: worker.Attempts})
	if err != nil {
		return err
	}
	return localapi.SendFiles(conn, append(message, '\n'), files...)
}

// tellTime bounds telling a caller how its worker ended.
const tellTime = time.Second

// stay waits until the worker has ended, by itself or because the caller went away, and tells how.
func stay(conn *net.UnixConn, worker *keeper.Worker) {
	go func() {
		conn.Read(make([]byte, 1)) // the caller says nothing: whatever comes is its end
		worker.Kill()
	}()
	<-worker.Done()
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(worker.Exit()); err == nil && conn.SetWriteDeadline(time.Now().Add(tellTime)) == nil {
		conn.Write(line.Bytes()) // one that is gone does not read it
	}
}

// exitOf reads the last line of a connection.
func exitOf(line []byte) (confine.Exit, error) {
	var exit confine.Exit
	err := json.Unmarshal(line, &exit)
	return exit, err
}
