package localapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"playground/localapi"
)

func TestMain(m *testing.M) {
	if os.Getenv(panicEnv) != "" {
		panicServer()
	}
	// net/http lingers half a second on a connection whose request it refused, and Close does not wait for that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// socketPath returns a path short enough for every platform, which t.TempDir does not promise.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "d.sock")
}

// serve runs the routes on a fresh socket until the test ends and returns a client of it.
func serve(t testing.TB, opts localapi.Options, routes ...localapi.Route) *localapi.Client {
	t.Helper()
	path := socketPath(t)
	ln, err := localapi.Listen(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	server := localapi.Server(localapi.Handler(routes, opts))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	client := localapi.NewClient(path)
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if err := <-done; err != http.ErrServerClosed {
			t.Errorf("Serve: %v", err)
		}
	})
	return client
}

func anybody(localapi.Peer) error { return nil }

// post is a route at /x with this handler.
func post(handle func(http.ResponseWriter, *http.Request) error) localapi.Route {
	return localapi.Route{Method: "POST", Path: "/x", Access: anybody, Handle: handle}
}
