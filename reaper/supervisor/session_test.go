package supervisor_test

import (
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"playground/reaper/bsdproc"
	"playground/reaper/proof"
	"playground/reaper/supervisor"
	"playground/seqpacket"
)

// deadKernel is a kernel without processes, whose jail goes when it is told to.
type deadKernel struct {
	proof.Kernel
	removed bool
}

func (k *deadKernel) Status() (bsdproc.Status, error) {
	return bsdproc.Status{Flags: bsdproc.StatusOwned, Pid: -1}, nil
}
func (k *deadKernel) Wait(int, bool) (int, syscall.WaitStatus, error) { return 0, 0, proof.ErrNoChild }
func (k *deadKernel) RemoveJail() error                               { k.removed = true; return nil }
func (k *deadKernel) Unlimit() error                                  { return nil }
func (k *deadKernel) Now() time.Time                                  { return time.Now() }
func (k *deadKernel) Pause(d time.Duration)                           { time.Sleep(d) }
func (k *deadKernel) JailState() (bsdproc.JailState, error) {
	if k.removed {
		return bsdproc.JailGone, nil
	}
	return bsdproc.JailAlive, nil
}

// refusing is a system in which nothing can be started.
type refusing struct {
	kernel  *deadKernel
	started bool
}

func (r *refusing) Start(supervisor.Start, []*os.File) (int, error) {
	r.started = true
	return 0, errors.New("cannot enter folder")
}
func (r *refusing) Kernel(s supervisor.Start) (proof.Kernel, error) {
	if s.JID <= 0 {
		return nil, errors.New("no jail")
	}
	return r.kernel, nil
}
func (r *refusing) Terminate()                 {}
func (r *refusing) Children() <-chan os.Signal { return nil }
func (r *refusing) Reconcile(supervisor.Start) {}
func (r *refusing) Started(int) uint64         { return 0 }

// serve sends one message, with n descriptors, to a supervisor and returns its words and its end.
func serve(t *testing.T, sys supervisor.System, message string, n int) ([]supervisor.Word, error) {
	t.Helper()
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	var files []*os.File
	for range n {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	if message == "" {
		ours.Close()
	} else if err := ours.Send([]byte(message), files...); err != nil {
		t.Fatal(err)
	}
	err = supervisor.Serve(theirs, sys)
	theirs.Close()
	var words []supervisor.Word
	for {
		data, _, recvErr := ours.Recv(make([]byte, 8192))
		if recvErr != nil {
			return words, err
		}
		var word supervisor.Word
		if err := json.Unmarshal(data, &word); err != nil {
			t.Fatal(err)
		}
		words = append(words, word)
	}
}

// A start that is refused has a jail and limits already: they are taken away, and proved to be, before it is reported.
func TestRefusedStartIsCleanedUp(t *testing.T) {
	sys := &refusing{kernel: &deadKernel{}}
	words, err := serve(t, sys, `{"jid":7,"argv":["L2Jpbi9zaA=="],"dir":"Lw==","deadline_ns":1000000000}`, 3)
	if err != nil || len(words) != 1 {
		t.Fatalf("%+v, %v", words, err)
	}
	if w := words[0]; w.Refused != "cannot enter folder" || !w.Final || !w.Proven || w.Leader || !sys.kernel.removed {
		t.Errorf("got %+v, removed %v", w, sys.kernel.removed)
	}
}

// What is not exactly a job is not started.
func TestMalformedStart(t *testing.T) {
	for _, c := range []struct {
		message string
		files   int
	}{{"{", 3}, {`{"jid":7}`, 2}, {`{"jid":7}`, 4}, {`{"jid":0}`, 3}, {`{"jid":"7"}`, 3}} {
		sys := &refusing{kernel: &deadKernel{}}
		if words, err := serve(t, sys, c.message, c.files); err == nil || len(words) > 0 || sys.started {
			t.Errorf("%s with %d files: %+v, %v, started %v", c.message, c.files, words, err, sys.started)
		}
	}
}

// A supervisor that is not needed any more just ends.
func TestNoJob(t *testing.T) {
	if words, err := serve(t, &refusing{}, "", 0); err != nil || len(words) > 0 {
		t.Errorf("%+v, %v", words, err)
	}
}
