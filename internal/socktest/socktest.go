// Package socktest serves an API of the daemons on a unix socket, for the tests of its routes and its client.
package socktest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"playground/localapi"
)

// Serve serves a handler until the end of the test and returns its socket, whose path is short enough for one.
func Serve(tb testing.TB, h http.Handler) (path string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "sock")
	if err != nil {
		tb.Fatal(err)
	}
	path = filepath.Join(dir, "daemon.sock")
	listener, err := localapi.Listen(path, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	server := localapi.Server(h)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	tb.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			tb.Errorf("Serve: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	return path
}
