// Package workertest makes stand-ins for playground-worker: programs that confine themselves as it does, and then do what a
// test says, or that behave badly from the beginning.
package workertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The ways to behave. A good one repeats each line of its input, and obeys some: see testdata/worker.
const (
	Good   = ""
	Silent = "silent" // never reports
	Dies   = "dies"   // before its report
	Lies   = "lies"   // is not confined, and says that it is
	Floods = "flood"  // writes without end
	Chatty = "chatty" // says more than its report
	Forked = "forked" // has a child from before it was confined
	Leaks  = "leak"   // opens a file of the host before it is confined
)

// built is the program, built once a process.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("PLAYGROUND_STANDIN"); path != "" {
		return path, nil // of an outer test, for one that runs as another user
	}
	return Build("worker", "playground/internal/workertest/testdata/worker")
})

// dirs are what Main removes.
var dirs struct {
	mu   sync.Mutex // guards made
	made []string
}

// Build builds a program into a folder of its own, below the one for temporary files.
func Build(name, pkg string, tags ...string) (string, error) {
	dir, err := os.MkdirTemp("", "workertest")
	if err != nil {
		return "", err
	}
	dirs.mu.Lock()
	dirs.made = append(dirs.made, dir)
	dirs.mu.Unlock()
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path}, tags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// Main runs a package's tests and removes what was built.
func Main(m *testing.M) int {
	code := m.Run()
	for _, dir := range dirs.made {
		os.RemoveAll(dir)
	}
	return code
}

// Program returns the path of a stand-in that behaves so.
func Program(tb testing.TB, behaviour string) string {
	tb.Helper()
	Allowed(tb)
	path, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	own := filepath.Join(tb.TempDir(), "worker")
	if err := os.WriteFile(own, append(data, []byte("MODE:"+behaviour)...), 0o755); err != nil {
		tb.Fatal(err)
	}
	return own
}
