package doors_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"syscall"
	"testing"

	"playground/workloop/doors"
	"playground/workloop/loop"
)

// BenchmarkPropose is one verdict over a socket pair, without the kernel's own work.
func BenchmarkPropose(b *testing.B) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "doors")
		if ends[i], err = net.FileConn(file); err != nil {
			b.Fatal(err)
		}
		_ = file.Close()
	}
	k := &forgetful{kernel{verdict: loop.Verdict{Decision: loop.Allow, Layer: loop.LayerAllow, Call: id, Verdict: id}}}
	done := make(chan error, 1)
	go func() {
		done <- doors.Serve(b.Context(), ends[0], doors.NewHandler(func(string) (loop.Kernel, doors.Bounds, bool) { return k, doors.Bounds{}, true }))
	}()
	client := doors.NewClient(ends[1], bearer)
	for b.Loop() {
		if _, err := client.Propose(b.Context(), loop.Proposal{CallID: "c", Tool: "bash", Args: json.RawMessage(`{"command":"ls -l /tmp"}`)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := client.Close(); err != nil {
		b.Error(err)
	}
	<-done
}

// A forgetful kernel does not note what reaches it.
type forgetful struct{ kernel }

func (k *forgetful) Propose(context.Context, loop.Proposal) (loop.Verdict, error) {
	return k.verdict, nil
}
