//go:build !linux && !freebsd

package preflight

import (
	"context"
	"runtime"
)

func platformSandboxes(ctx context.Context, o Options) []Check { return platform(ctx, o) }

// platform fails: nothing can be isolated here.
func platform(context.Context, Options) []Check {
	return []Check{fail("platform", "run the daemons on FreeBSD or Linux", "%s has no isolation that the daemons can use", runtime.GOOS)}
}
