package workapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"playground/confine/escape"
	"playground/fault"
	"playground/localapi"
	"playground/policy"
	"playground/record"
	"playground/workloop"
)

// An Error is a refusal of a route, as the client returns it. It unwraps to a *fault.Error of a fitting kind, with the hint.
type Error struct {
	Status  int
	Code    string
	Message string
	Hint    string
	Body    map[string]any // the whole body, for what belongs to one code
}

// Error returns the message and the code.
func (e *Error) Error() string { return e.Message + " (" + e.Code + ")" }

// Unwrap returns the error's kind and hint.
func (e *Error) Unwrap() error {
	return &fault.Error{Kind: kindOf(e.Status), Message: e.Message, Hint: e.Hint}
}

func kindOf(status int) fault.Kind {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return fault.Invalid
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Denied
	case http.StatusNotFound:
		return fault.NotFound
	case http.StatusConflict:
		return fault.Exists
	case http.StatusTooManyRequests, http.StatusPaymentRequired:
		return fault.Limit
	case http.StatusRequestEntityTooLarge:
		return fault.TooLarge
	case http.StatusServiceUnavailable:
		return fault.Unavailable
	case http.StatusNotImplemented:
		return fault.Unsupported
	}
	return fault.Internal
}

// A Client calls /v1 over the operator's socket. It is safe for concurrent use.
type Client struct {
	api   *localapi.Client
	actor string
}

// NewClient returns a client of the daemon at this socket.
func NewClient(socket string) *Client {
	api := localapi.NewClient(socket)
	api.Daemon = "playgroundd"
	return &Client{api: api}
}

// As returns a client that acts for the tenant whose DID is actor; "" is the operator. It shares the connections of c.
func (c *Client) As(actor string) *Client { return &Client{api: c.api, actor: actor} }

// Disconnect gives up idle connections.
func (c *Client) Disconnect() { c.api.Close() }

// maxAnswer bounds an answer that is not a stream: a thread of many records.
const maxAnswer = 256 << 20

// do calls a route; in and out may be nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = encode(in); err != nil {
			return fault.Wrap(fault.Internal, err, "cannot encode request")
		}
	}
	resp, err := c.api.Send(ctx, method, path, c.header(), body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return readError(resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.api.Lost(ctx, err)
	case len(answer) > maxAnswer:
		return fault.New(fault.TooLarge, "the answer is over %d bytes", maxAnswer).WithHint("ask for less at once, with a limit")
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fault.Wrap(fault.Internal, err, "cannot read the answer of playgroundd")
	}
	return nil
}

func (c *Client) header() http.Header {
	header := http.Header{}
	if c.actor != "" {
		header.Set(ActorHeader, c.actor)
	}
	return header
}

// readError makes an Error of an answer; what is not in our form is kept short.
func readError(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what came is what can be shown
	e := &Error{Status: resp.StatusCode}
	if json.Unmarshal(text, &e.Body) == nil {
		e.Code, _ = e.Body["code"].(string)
		e.Message, _ = e.Body["message"].(string)
		e.Hint, _ = e.Body["hint"].(string)
	}
	if e.Code == "" {
		e.Code = codeInternal
		e.Message = fmt.Sprintf("playgroundd answered with status %d: %.200q", resp.StatusCode, text)
	}
	return e
}

// encode is json.Marshal without the escapes that only a page of HTML needs.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return buf.Bytes(), err
}

// WriteRecord writes a record. An identical one is not written twice.
func (c *Client) WriteRecord(ctx context.Context, r NewRecord) (record.Record, error) {
	var written record.Record
	err := c.do(ctx, "POST", "/v1/records", r, &written)
	return written, err
}

// Record returns one record, or fault.NotFound.
func (c *Client) Record(ctx context.Context, id string) (record.Record, error) {
	var r record.Record
	err := c.do(ctx, "GET", localapi.Join("/v1/records/%s", id), nil, &r)
	return r, err
}

// Records returns a page of records by sequence.
func (c *Client) Records(ctx context.Context, f RecordFilter) (List[record.Record], error) {
	values := url.Values{}
	setText(values, "thread", f.Thread)
	setText(values, "actor", f.Actor)
	setText(values, "kind", f.Kind)
	setNumber(values, "since", f.Since)
	setNumber(values, "after", f.After)
	setNumber(values, "limit", int64(f.Limit))
	if f.ClockMin != nil {
		values.Set("clock_min", strconv.FormatInt(*f.ClockMin, 10))
	}
	if f.ClockMax != nil {
		values.Set("clock_max", strconv.FormatInt(*f.ClockMax, 10))
	}
	var list List[record.Record]
	err := c.do(ctx, "GET", "/v1/records?"+values.Encode(), nil, &list)
	return list, err
}

// Query returns the records that match a query.
func (c *Client) Query(ctx context.Context, q record.Query) (record.Page, error) {
	var page record.Page
	err := c.do(ctx, "POST", "/v1/records/query", q, &page)
	return page, err
}

// Threads returns a page of threads.
func (c *Client) Threads(ctx context.Context, after int64, limit int) (List[ThreadInfo], error) {
	values := url.Values{}
	setNumber(values, "after", after)
	setNumber(values, "limit", int64(limit))
	var list List[ThreadInfo]
	err := c.do(ctx, "GET", "/v1/threads?"+values.Encode(), nil, &list)
	return list, err
}

// Thread returns one thread, or fault.NotFound.
func (c *Client) Thread(ctx context.Context, id string) (ThreadInfo, error) {
	var thread ThreadInfo
	err := c.do(ctx, "GET", localapi.Join("/v1/threads/%s", id), nil, &thread)
	return thread, err
}

// ThreadRecords returns the records of a thread by sequence: all after after, or the first limit of them.
func (c *Client) ThreadRecords(ctx context.Context, id string, after int64, limit int) (List[record.Record], error) {
	values := url.Values{}
	setNumber(values, "after", after)
	setNumber(values, "limit", int64(limit))
	var list List[record.Record]
	err := c.do(ctx, "GET", localapi.Join("/v1/threads/%s/records", id)+"?"+values.Encode(), nil, &list)
	return list, err
}

// Start starts a run.
func (c *Client) Start(ctx context.Context, r workloop.StartRequest) (workloop.Started, error) {
	var started workloop.Started
	err := c.do(ctx, "POST", "/v1/work/loop", r, &started)
	return started, err
}

// Preview says what Start would do.
func (c *Client) Preview(ctx context.Context, r workloop.StartRequest) (workloop.Preview, error) {
	var preview workloop.Preview
	err := c.do(ctx, "POST", "/v1/work/loop/preview", r, &preview)
	return preview, err
}

// Escape runs the escape suite, which takes some seconds. A red row is no error; a worker that could not be isolated is.
func (c *Client) Escape(ctx context.Context) (escape.Report, error) {
	var report escape.Report
	err := c.do(ctx, "POST", "/v1/work/escape", struct{}{}, &report)
	return report, err
}

// Runs returns runs, newest first.
func (c *Client) Runs(ctx context.Context, f RunFilter) (RunList, error) {
	values := url.Values{}
	setText(values, "state", f.State)
	setText(values, "actor", f.Actor)
	setText(values, "since", f.Since)
	setNumber(values, "limit", int64(f.Limit))
	var list RunList
	err := c.do(ctx, "GET", "/v1/runs?"+values.Encode(), nil, &list)
	return list, err
}

// Run returns a run's row, or fault.NotFound.
func (c *Client) Run(ctx context.Context, thread string) (workloop.Row, error) {
	var row workloop.Row
	err := c.do(ctx, "GET", localapi.Join("/v1/runs/%s", thread), nil, &row)
	return row, err
}

// Tell tells a run something: to stop, a message, or a decision.
func (c *Client) Tell(ctx context.Context, thread string, event workloop.Event) (Ack, error) {
	var ack Ack
	err := c.do(ctx, "POST", localapi.Join("/v1/runs/%s/events", thread), event, &ack)
	return ack, err
}

// Decisions returns the questions that nobody has answered, oldest first.
func (c *Client) Decisions(ctx context.Context) (List[workloop.OpenDecision], error) {
	var list List[workloop.OpenDecision]
	err := c.do(ctx, "GET", "/v1/decisions", nil, &list)
	return list, err
}

// Decide answers a question, by the id of its record.
func (c *Client) Decide(ctx context.Context, id string, answer Answer) (workloop.Decision, error) {
	var decision workloop.Decision
	err := c.do(ctx, "POST", localapi.Join("/v1/decisions/%s/decide", id), answer, &decision)
	return decision, err
}

// Rules returns the permission rules.
func (c *Client) Rules(ctx context.Context) (RuleList, error) {
	var list RuleList
	err := c.do(ctx, "GET", "/v1/config/permission-rules", nil, &list)
	return list, err
}

// Tools returns the instance's tools.
func (c *Client) Tools(ctx context.Context) (List[workloop.ToolInfo], error) {
	var list List[workloop.ToolInfo]
	err := c.do(ctx, "GET", "/v1/tools", nil, &list)
	return list, err
}

// Tool returns one tool, or fault.NotFound.
func (c *Client) Tool(ctx context.Context, id string) (workloop.ToolInfo, error) {
	var tool workloop.ToolInfo
	err := c.do(ctx, "GET", localapi.Join("/v1/tools/%s", id), nil, &tool)
	return tool, err
}

// EngineHealth returns the figures of the instance.
func (c *Client) EngineHealth(ctx context.Context, details bool) (EngineHealth, error) {
	var health EngineHealth
	err := c.do(ctx, "GET", "/v1/engine/health?details="+strconv.FormatBool(details), nil, &health)
	return health, err
}

// ExpressionStats returns the figures of the cache of expressions.
func (c *Client) ExpressionStats(ctx context.Context) (policy.Stats, error) {
	var stats policy.Stats
	err := c.do(ctx, "GET", "/v1/engine/expression_cache/stats", nil, &stats)
	return stats, err
}

// Verify checks the whole log.
func (c *Client) Verify(ctx context.Context) (Verification, error) {
	var v Verification
	err := c.do(ctx, "GET", "/v1/engine/verify", nil, &v)
	return v, err
}

// Usage returns what an actor used on a day ("2006-01-02"; "" is today, UTC).
func (c *Client) Usage(ctx context.Context, actor, day string) (workloop.Usage, error) {
	values := url.Values{}
	setText(values, "day", day)
	var usage workloop.Usage
	err := c.do(ctx, "GET", localapi.Join("/v1/actors/%s/usage", actor)+"?"+values.Encode(), nil, &usage)
	return usage, err
}

func setText(values url.Values, key, value string) {
	if value != "" {
		values.Set(key, value)
	}
}

func setNumber(values url.Values, key string, value int64) {
	if value != 0 {
		values.Set(key, strconv.FormatInt(value, 10))
	}
}
