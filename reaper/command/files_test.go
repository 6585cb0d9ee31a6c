package command

import (
	"bytes"
	"testing"
	"time"

	"playground/ring"
)

type sink struct{ bytes.Buffer }

func (s *sink) Write(_ ring.Stream, p []byte) { s.Buffer.Write(p) }

// TestLateReaderLosesNothing: the deadline for the end of the output is over before anything was read, because a write end is
// held by somebody else; what was written is there all the same.
func TestLateReaderLosesNothing(t *testing.T) {
	var f Files
	theirs, err := f.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789"), 5000)
	if _, err := theirs[1].Write(want); err != nil {
		t.Fatal(err)
	}
	f.outputs[0].SetReadDeadline(time.Now().Add(-time.Second))
	f.outputs[1].SetReadDeadline(time.Now().Add(-time.Second))
	out := &sink{}
	f.Pump(nil, out)
	f.readers.Wait()
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%d of %d bytes", out.Len(), len(want))
	}
	for _, file := range theirs {
		file.Close()
	}
	f.Close()
}

// TestPump: input goes in, output comes out, whatever its size.
func TestPump(t *testing.T) {
	var f Files
	theirs, err := f.Open([]byte("input"))
	if err != nil {
		t.Fatal(err)
	}
	out := &sink{}
	f.Pump([]byte("input"), out)
	got := make([]byte, 16)
	n, _ := theirs[0].Read(got)
	if string(got[:n]) != "input" {
		t.Errorf("got %q", got[:n])
	}
	want := bytes.Repeat([]byte("x"), 1<<20)
	go func() {
		theirs[2].Write(want)
		for _, file := range theirs {
			file.Close()
		}
	}()
	f.Drain()
	if out.Len() != len(want) {
		t.Errorf("%d of %d bytes", out.Len(), len(want))
	}
}
