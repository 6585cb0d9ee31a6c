package seqpacket_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"playground/seqpacket"
)

func pair(t *testing.T) (*seqpacket.Conn, *seqpacket.Conn) {
	t.Helper()
	a, b, err := seqpacket.Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestMessagesKeepTheirEdgesAndFiles(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := a.Send([]byte("one"), w); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := a.Send([]byte("two")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, seqpacket.MaxData)
	data, files, err := b.Recv(buf)
	if err != nil || string(data) != "one" || len(files) != 1 {
		t.Fatalf("got %q, %d files, %v", data, len(files), err)
	}
	if _, err := files[0].WriteString("through"); err != nil {
		t.Fatal(err)
	}
	files[0].Close()
	if got, _ := io.ReadAll(r); string(got) != "through" {
		t.Errorf("the passed pipe gave %q", got)
	}
	if data, _, err = b.Recv(buf); err != nil || string(data) != "two" {
		t.Fatalf("got %q, %v", data, err)
	}
	a.Close()
	if _, _, err = b.Recv(buf); err != io.EOF {
		t.Errorf("after close: got %v, want io.EOF", err)
	}
}

func TestBounds(t *testing.T) {
	a, b := pair(t)
	if err := a.Send(make([]byte, seqpacket.MaxData+1)); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("oversize: got %v, want EMSGSIZE", err)
	}
	big := bytes.Repeat([]byte("x"), seqpacket.MaxData)
	if err := a.Send(big); err != nil {
		t.Fatalf("largest message: %v", err)
	}
	if data, _, err := b.Recv(make([]byte, seqpacket.MaxData)); err != nil || !bytes.Equal(data, big) {
		t.Errorf("largest message came out with %d bytes, %v", len(data), err)
	}
	// A reader with too little room gets an error, never half a message, and no descriptor is leaked to it.
	if err := a.Send([]byte("12345678"), os.Stderr); err != nil {
		t.Fatal(err)
	}
	if _, files, err := b.Recv(make([]byte, 4)); err == nil || files != nil {
		t.Errorf("cut message: got %v files, %v", files, err)
	}
	b.Close()
	if err := a.Send([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("send to a closed peer: got %v, want EPIPE", err)
	}
}

func TestFromFDRefusesOthers(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := seqpacket.FromFD(int(f.Fd())); err == nil {
		t.Error("a plain file was taken for a socket")
	}
}
