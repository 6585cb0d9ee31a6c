package reaper_test

import (
	"os/exec"
	"testing"

	"playground/internal/sandboxtest"
	"playground/job"
	"playground/ring"
)

// BenchmarkRun is a login shell that runs true in a sandbox, from request to proof.
func BenchmarkRun(b *testing.B) {
	h := sandboxtest.New(b)
	h.Tenant(b, "alice", "")
	spec := job.Spec{Tenant: "alice", Mode: job.Login, Command: []byte("true")}
	for b.Loop() {
		if _, err := h.Runner.Run(b.Context(), spec, &sandboxtest.Output{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBareShell is the floor: the same shell without a sandbox.
func BenchmarkBareShell(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBwrap is a peer with the same namespaces, where it is installed.
func BenchmarkBwrap(b *testing.B) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skip("bwrap is not installed")
	}
	for b.Loop() {
		if err := exec.Command(path, "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
			"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--cap-drop", "ALL", "/bin/sh", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput is a job's output through its pipes, in bytes per second.
func BenchmarkOutput(b *testing.B) {
	h := sandboxtest.New(b)
	h.Tenant(b, "alice", "")
	const size = 256 << 20
	b.SetBytes(size)
	for b.Loop() {
		if _, err := h.Runner.Run(b.Context(), job.Spec{Tenant: "alice", Mode: job.Clean, Command: []byte("head -c 268435456 /dev/zero")}, discard{}); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(ring.Stream, []byte) {}
