package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/catalogue"
	"playground/fault"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
	"playground/sandbox"
	"playground/version"
)

const (
	// answerGrace is how long calls that run at the end of the input may still answer; then they are cancelled, and their
	// commands with them.
	answerGrace = time.Second
	// closeLimit bounds giving handles back after the client has left.
	closeLimit = 10 * time.Second
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
	open := catalogue.NewHandles(provider, tenant)
	server := catalogue.New(provider, tenant, catalogue.Options{
		Version: version.String(), Limits: c.JobLimits(), TextBytes: c.Jobs.TextBytes, OnOpen: open.Opened, OnClose: open.Closed,
		OnError: func(_ context.Context, tool string, err error) {
			fmt.Fprintf(e.Stderr, "playground: %s: %v\n", tool, err)
		},
	})
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	input := &input{Reader: e.Stdin, ended: func() { time.AfterFunc(answerGrace, cancel) }}
	err = server.Run(serving, &mcp.IOTransport{Reader: input, Writer: nopCloser{e.Stdout}})
	if serving.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		err = nil
	}
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer stop()
	if closeErr := open.Close(closing); !errors.Is(closeErr, fault.Busy) { // a job keeps its session
		err = errors.Join(err, closeErr)
	}
	return err
}

// An input is standard input that tells once when it has ended.
type input struct {
	io.Reader
	ended func()
	once  sync.Once
}

// Read reads from standard input.
func (i *input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil {
		i.once.Do(i.ended)
	}
	return n, err
}

// Close does nothing: standard input is not ours to close.
func (i *input) Close() error { return nil }

// A nopCloser is a Writer whose Close does nothing: standard output is not ours to close.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
