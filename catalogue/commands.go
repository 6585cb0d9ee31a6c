package catalogue

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/fault"
	"playground/job"
	"playground/ring"
	"playground/sandbox"
)

// command makes a sandbox.Command of checked arguments.
func command(args arguments) sandbox.Command {
	cmd := sandbox.Command{
		Text:    args.text("command"),
		Cwd:     args.text("cwd"),
		Timeout: time.Duration(args.integer("timeout_ms")) * time.Millisecond,
	}
	if stdin, ok := args.optionalText("stdin"); ok {
		cmd.Stdin = []byte(stdin)
	}
	return cmd
}

// check refuses early, and with the tool's own words, what the daemons would refuse too.
func (c *catalogue) check(cmd sandbox.Command) error {
	if l := c.options.Limits; len(cmd.Text) > l.CommandBytes {
		return fault.New(fault.TooLarge, "the command is %d bytes long; %d is the most", len(cmd.Text), l.CommandBytes).
			WithHint("write a script with write, then run it")
	} else if len(cmd.Stdin) > l.StdinBytes {
		return fault.New(fault.TooLarge, "stdin is %d bytes long; %d is the most", len(cmd.Stdin), l.StdinBytes).
			WithHint("write it to files with write, then redirect them")
	}
	return nil
}

func (c *catalogue) exec(ctx context.Context, req *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, error) {
	cmd := command(args)
	if err := c.check(cmd); err != nil {
		return nil, err
	}
	limit := cmd.Timeout
	if limit == 0 {
		limit = c.options.Limits.ExecDefault
	}
	stop := c.progress(ctx, req, limit)
	// Each stream may fill the whole budget, because the other one may be empty.
	half := c.options.TextBytes / 2
	e, err := c.provider.Exec(ctx, c.tenant, args.text("session"), cmd, half, half)
	stop()
	if err != nil {
		return nil, err
	}
	words, truncated := execText(e, c.options.TextBytes)
	r := result(words, execView{resultView: viewOf(e.Result), Truncated: truncated || e.Stdout.Truncated() || e.Stderr.Truncated()})
	r.IsError = e.Outcome == job.Failed
	return r, nil
}

// progress tells a client that asked for it that the command still runs. The returned function ends it and waits.
func (c *catalogue) progress(ctx context.Context, req *mcp.CallToolRequest, limit time.Duration) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(c.options.ProgressEvery)
		defer ticker.Stop()
		for start := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			elapsed := time.Since(start)
			// An error means that the client is gone; the call's own context ends then where the protocol says so.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token,
				Progress:      float64(elapsed.Milliseconds()) / 1000,
				Total:         limit.Seconds(),
				Message:       fmt.Sprintf("running for %s", elapsed.Round(time.Second)),
			})
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (c *catalogue) jobExec(ctx context.Context, _ *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, error) {
	cmd := command(args)
	if err := c.check(cmd); err != nil {
		return nil, err
	}
	status, err := c.provider.JobStart(ctx, c.tenant, args.text("session"), cmd)
	if err != nil {
		return nil, err
	}
	return result(fmt.Sprintf("%s is %s; read its output with job_poll, cursor %d", status.JobID, status.State, status.Cursor), status), nil
}

func (c *catalogue) jobCancel(ctx context.Context, _ *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, error) {
	status, err := c.provider.JobCancel(ctx, c.tenant, args.text("job_id"))
	if err != nil {
		return nil, err
	}
	words := fmt.Sprintf("%s is %s", status.JobID, status.State)
	if status.State != job.Terminal {
		words += "; job_poll shows its end and the clean-up receipt"
	}
	return result(words, status), nil
}

// A chunkView is consecutive output of one stream: text, or base64 if it is not UTF-8.
type chunkView struct {
	Sequence int64       `json:"sequence"`
	Stream   ring.Stream `json:"stream"`
	Text     *string     `json:"text,omitempty"`
	Base64   *string     `json:"base64,omitempty"`
}

type pollView struct {
	JobID        string      `json:"job_id"`
	State        job.State   `json:"state"`
	Chunks       []chunkView `json:"chunks"`
	NextCursor   int64       `json:"next_cursor"`
	HasMore      bool        `json:"has_more"`
	Gap          bool        `json:"gap"`
	DroppedBytes int64       `json:"dropped_bytes"`
	Result       *resultView `json:"result"`
}

func (c *catalogue) jobPoll(ctx context.Context, _ *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, error) {
	wait := time.Duration(args.integer("wait_ms")) * time.Millisecond
	page, err := c.provider.JobPoll(ctx, c.tenant, args.text("job_id"), args.integer("cursor"), wait)
	if err != nil {
		return nil, err
	}
	view := pollView{
		JobID: page.JobID, State: page.State, Chunks: make([]chunkView, 0, len(page.Chunks)),
		NextCursor: page.NextCursor, HasMore: page.HasMore, Gap: page.Gap, DroppedBytes: page.DroppedBytes,
	}
	for _, chunk := range page.Chunks {
		view.Chunks = append(view.Chunks, viewOfChunk(chunk))
	}
	if page.Result != nil {
		end := viewOf(*page.Result)
		view.Result = &end
	}
	return result(pollText(page, c.options.TextBytes), view), nil
}

func viewOfChunk(chunk ring.Chunk) chunkView {
	view := chunkView{Sequence: chunk.Sequence, Stream: chunk.Stream}
	if utf8.Valid(chunk.Data) {
		s := string(chunk.Data)
		view.Text = &s
	} else {
		s := base64.StdEncoding.EncodeToString(chunk.Data)
		view.Base64 = &s
	}
	return view
}
