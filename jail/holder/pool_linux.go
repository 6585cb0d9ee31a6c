package holder

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"playground/procfs"
)

// A holder keeps a pool of inits.
type holder struct {
	cfg  Config
	idle *time.Timer // drops the pool

	dials atomic.Int32 // connections being made

	// mu guards what follows.
	mu       sync.Mutex
	warm     []*jobInit
	busy     map[*jobInit]struct{} // inits that have a job
	spawning int                   // starts that wait for a new init
	stopping bool                  // no more starts
	filling  bool
}

// start gives a job's connection to a ready init, or to a new one.
func (h *holder) start(job *os.File) (*os.File, error) {
	h.mu.Lock()
	if h.stopping {
		h.mu.Unlock()
		return nil, errors.New("the sandbox is closing")
	}
	var in *jobInit
	if n := len(h.warm); n > 0 {
		in, h.warm = h.warm[n-1], h.warm[:n-1]
		h.busy[in] = struct{}{}
	} else {
		h.spawning++
	}
	h.mu.Unlock()
	h.idle.Reset(warmIdle)

	if in == nil {
		var err error
		if in, err = h.cold(); err != nil {
			return nil, err
		}
	}
	if err := in.conn.Send([]byte("job"), job); err != nil {
		h.forget(in)
		in.discard()
		return nil, err
	}
	if h.first(in) {
		go h.tend(in)
	}
	go h.refill()
	return in.pidfd, nil
}

// first reports whether this is the init's first job.
func (h *holder) first(in *jobInit) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !in.used
	in.used = true
	return first
}

// tend takes an init back whenever it is free, and buries it in the end.
func (h *holder) tend(in *jobInit) {
	buf := make([]byte, 4096)
	for {
		word, _, err := in.conn.Recv(buf)
		if err != nil {
			break
		}
		if string(word) == Free && !h.takeBack(in) {
			in.conn.Close() // for which it ends
		}
	}
	in.proc.Wait() // reaps it; a job's owner reads the end from the pidfd
	h.forget(in)
	in.close()
}

// keep bounds the ready inits of a tenant: as many as it may run jobs at once.
const keep = 8

// takeBack puts an init that is free again into the pool, unless that is full or closed.
func (h *holder) takeBack(in *jobInit) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, in)
	if h.stopping || len(h.warm) >= keep {
		return false
	}
	h.warm = append(h.warm, in)
	return true
}

// cold starts an init for a job that found none ready.
func (h *holder) cold() (*jobInit, error) {
	in, err := h.spawn()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spawning--
	if err == nil {
		h.busy[in] = struct{}{}
	}
	return in, err
}

func (h *holder) forget(in *jobInit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busy, in)
}

// refill brings the pool to its size again; one at a time does it.
func (h *holder) refill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.filling {
		return
	}
	h.filling = true
	defer func() { h.filling = false }()
	for len(h.warm) < h.cfg.Warm && !h.stopping {
		h.mu.Unlock()
		in, err := h.spawn()
		h.mu.Lock()
		if err != nil {
			fmt.Fprintln(os.Stderr, "playground-supervise:", err)
			return // the next start tries for itself and reports
		}
		h.warm = append(h.warm, in)
	}
}

// drain drops the ready inits of a sandbox that is not in use.
func (h *holder) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, in := range h.warm {
		in.discard()
	}
	h.warm = nil
}

// settleTime bounds waiting for inits that have no process any more, and whose word that they are free is under way.
const settleTime = 200 * time.Millisecond

// stop refuses later starts unless jobs run, and returns their number.
func (h *holder) stop() int {
	for end := time.Now().Add(settleTime); ; time.Sleep(time.Millisecond) {
		busy, settling := h.tryStop()
		if !settling || time.Now().After(end) {
			return busy
		}
	}
}

// tryStop is one try of stop. Settling: no init with a job has a process, so that a moment later none may be busy.
func (h *holder) tryStop() (busy int, settling bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	busy, settling = h.spawning, h.spawning == 0
	for in := range h.busy {
		if in.ended() {
			continue
		}
		busy++
		if childless, err := procfs.Childless(in.proc.Pid); err != nil || !childless {
			settling = false
		}
	}
	h.stopping = busy == 0
	return busy, settling && busy > 0
}
