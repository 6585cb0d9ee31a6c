package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"playground/catalogue"
	"playground/fault"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
	"playground/sandbox"
	"playground/version"
)

// MCP serves the tools for one tenant over Stdin and Stdout, until the input ends or ctx does. It is for an operator on
// this machine: the right to call the root daemons stands for a token. The handles that the client opened and did not
// close are closed at the end.
func (e *Env) MCP(ctx context.Context, tenant string) error {
	c, err := e.load()
	if err != nil {
		return err
	}
	jails, jobs := jailapi.NewClient(c.JailSocket()), jobapi.NewClient(c.ReaperSocket())
	defer jails.Disconnect()
	defer jobs.Disconnect()
	if _, err := jails.Get(ctx, tenant); err != nil { // before the handshake, where it can still be read as an error
		if errors.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "there is no tenant %q", tenant).WithHint("make it: playground user create %s", tenant)
		}
		return err
	}
	provider := sandbox.New(jails, jobs, sandbox.Options{Prefix: c.Host.Prefix, FileBytes: c.Jobs.FileBytes})
	options := catalogue.Options{
		Version: version.String(), Limits: c.JobLimits(), TextBytes: c.Jobs.TextBytes,
		OnError: func(_ context.Context, tool string, err error) {
			fmt.Fprintf(e.Stderr, "playground: %s: %v\n", tool, err)
		},
	}
	return catalogue.Serve(ctx, provider, tenant, options, io.NopCloser(e.Stdin), e.Stdout)
}
