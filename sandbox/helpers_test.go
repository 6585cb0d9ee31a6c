package sandbox_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"playground/job"
	"playground/sandbox/sandboxtest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noTemporaries(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".playground-") {
			t.Errorf("temporary file %q was left in %q", e.Name(), dir)
		}
	}
}

// cutStdin drops the last byte of every input.
type cutStdin struct{ *sandboxtest.Jobs }

func (c *cutStdin) Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error) {
	if n := len(spec.Stdin); n > 0 {
		spec.Stdin = spec.Stdin[:n-1]
	}
	return c.Jobs.Exec(ctx, spec, head, tail)
}
