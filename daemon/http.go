package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// shutdownGrace is how long requests may end by themselves. Commands run in reaperd and outlive it; what is cut is an
// answer that the client can ask for again.
const shutdownGrace = 5 * time.Second

// HTTPTask serves srv on listener until its context ends, then lets requests end for a few seconds and closes what is
// left. Streams that end only when the client leaves should be ended by a function given to srv.RegisterOnShutdown, or
// they cost the whole grace. The task owns listener.
func HTTPTask(name string, srv *http.Server, listener net.Listener) Task {
	return NewTask(name, func(ctx context.Context, ready func()) error {
		return serve(ctx, srv, listener, ready)
	})
}

func serve(ctx context.Context, srv *http.Server, listener net.Listener, ready func()) error {
	listener = patient(listener)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	ready() // the listener already queues connections
	select {
	case err := <-served:
		return fmt.Errorf("cannot serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := srv.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	// Shutdown before Serve has taken the listener leaves it open; closing it twice is harmless.
	_ = listener.Close()
	<-served
	if err != nil {
		return fmt.Errorf("cannot stop serving on %s: %w", listener.Addr(), err)
	}
	return nil
}
