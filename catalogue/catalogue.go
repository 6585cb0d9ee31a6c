// Package catalogue is the set of MCP tools that an agent sees, on the official Go SDK: eight tools over one tenant's
// sandbox. Names, arguments and structured results are a public contract. A server made here belongs to one tenant for
// its whole life, so no request can carry an identity that disagrees with it.
//
// A tool that fails answers with a result marked isError whose text says what to do next, because that is what a model
// gets to see; JSON-RPC errors are only for what is not a tool call. Texts are plain, with the outcome in the first line,
// and bounded; structured results repeat the numbers exactly and, but for job_poll, no output. The SDK's typed tools are
// not used: they pass numbers through float64 and answer bad arguments with texts that do not name a way out.
package catalogue

import (
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/job"
	"playground/sandbox"
)

// DefaultTextBytes bounds the text of one result.
const DefaultTextBytes = 32 << 10

// listTTL is how long a client may keep the list of tools, which changes only with the program.
const listTTL = time.Minute

const instructions = `A persistent sandbox (a computer of your own). Call open_session first and pass its session id to every tool.
exec runs one shell command and waits (45 s by default); each command is a fresh shell, so use cwd or "cd x && ..." and export again.
What a command leaves running is killed when it ends: run servers and anything slow with job_exec, then job_poll and job_cancel.
Move files with read and write, bytes exact. Files stay when the session is closed.`

// Options are the values a catalogue needs beside its sandbox.
type Options struct {
	Version   string     // of the program, told to clients
	Limits    job.Limits // for the schemas' bounds; zero = the defaults
	TextBytes int        // budget of one result's text; 0 = DefaultTextBytes
	// ProgressEvery is the time between two progress notifications of an exec; 0 = 5 s.
	ProgressEvery time.Duration
	// OnOpen and OnClose, if set, are told of every handle that was opened or given back.
	OnOpen, OnClose func(session string)
	// OnError, if set, is told of errors whose text is kept from the caller, for the operator's log.
	OnError func(ctx context.Context, tool string, err error)
}

// A catalogue is the tools' shared state: all of it is fixed.
type catalogue struct {
	provider *sandbox.Provider
	tenant   string
	options  Options
}

// New returns an MCP server with the eight tools for one tenant. It serves any number of sessions.
func New(provider *sandbox.Provider, tenant string, options Options) *mcp.Server {
	if options.TextBytes <= 0 {
		options.TextBytes = DefaultTextBytes
	}
	if options.ProgressEvery <= 0 {
		options.ProgressEvery = 5 * time.Second
	}
	if options.Limits == (job.Limits{}) {
		options.Limits = job.DefaultLimits()
	}
	c := &catalogue{provider: provider, tenant: tenant, options: options}
	server := mcp.NewServer(&mcp.Implementation{Name: "playground", Title: "Playground", Version: options.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		// Not nil, or the SDK announces logging. The list of tools never changes during a connection.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ mcp.Request, cacheable *mcp.Cacheable) {
			cacheable.CacheScope, cacheable.TTLMs = "private", int(listTTL.Milliseconds())
		},
	})
	for _, t := range c.tools() {
		server.AddTool(t.describe(), c.handler(t))
	}
	server.AddReceivingMiddleware(refuseOthers)
	return server
}

// refuseOthers answers the methods of capabilities that are not offered. Without it the SDK answers them with empty
// lists, which reads as if the capability were there.
func refuseOthers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		family, _, _ := strings.Cut(method, "/")
		switch family {
		case "prompts", "resources", "completion", "logging":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: this server offers tools only"}
		}
		return next(ctx, method, req)
	}
}

// handler makes a tool's function the SDK's: arguments are checked before it, and errors become results after it.
func (c *catalogue) handler(t tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, err := t.arguments(req.Params.Arguments)
		if err != nil {
			return errorResult(err), nil
		}
		result, err := t.run(ctx, req, args)
		if err != nil {
			if c.options.OnError != nil && hidden(err) {
				c.options.OnError(ctx, t.name, err)
			}
			return errorResult(err), nil
		}
		return result, nil
	}
}
