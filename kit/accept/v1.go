package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A v1 speaks to /v1 over the network with a token, as a program of the operator's would.
type v1 struct {
	base   string // "http://127.0.0.1:8787"
	token  string
	client *http.Client
}

func newV1(endpoint, token string) (*v1, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	return &v1{base: u.Scheme + "://" + u.Host, token: token, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}}, nil
}

// A refusal is an answer that is no success.
type refusal struct {
	Status    int
	Code      string
	Message   string
	Capacity  *int `json:"admission_capacity"`
	Available *int `json:"admission_available"`
}

// Error says it as a person would want it.
func (r *refusal) Error() string { return fmt.Sprintf("status %d %s: %s", r.Status, r.Code, r.Message) }

// mostAnswer bounds what is read of one answer.
const mostAnswer = 32 << 20

// do makes a request in the name of actor, "" for the operator, and decodes the answer into out. A refusal is a *refusal.
func (v *v1) do(ctx context.Context, method, path, actor string, in, out any) error {
	body := io.Reader(http.NoBody)
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, v.base+path, body)
	if err != nil {
		return err
	}
	if v.token != "" {
		request.Header.Set("Authorization", "Bearer "+v.token)
	}
	if actor != "" {
		request.Header.Set("X-Playground-Actor", actor)
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := v.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		r := &refusal{Message: strings.TrimSpace(string(text))}
		_ = json.Unmarshal(text, r) // what is no JSON is told as it is
		r.Status = answer.StatusCode
		return r
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("cannot read the answer to %s %s: %w: %.200q", method, path, err, text)
	}
	return nil
}

// refused returns the refusal that err is; the zero value stands for anything else.
func refused(err error) refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return *r
	}
	return refusal{}
}

// A runRow is a run as it is served.
type runRow struct {
	Thread    string
	State     string
	Principal string
	Tier      string
	Transport string
	Outcome   *string
	Summary   *string
	Narrowed  []string
	OK        int `json:"tool_calls_ok"`
	Failed    int `json:"tool_calls_failed"`
}

// String says how the run stands.
func (r runRow) String() string {
	text := fmt.Sprintf("%s, %s, calls %d ok %d failed, narrowed %v", r.State, r.Transport, r.OK, r.Failed, r.Narrowed)
	if r.Outcome != nil {
		text += ", " + *r.Outcome
	}
	if r.Summary != nil {
		text += ": " + *r.Summary
	}
	return text
}

// A workRecord is a record of a run's thread.
type workRecord struct {
	ID       string
	Sequence int64
	Actor    string
	Body     workBody
}

// A workBody has the fields of all kinds that the play looks at.
type workBody struct {
	Kind      string
	Text      string
	Tool      string
	Decision  string
	Layer     string
	Rule      string
	Status    string
	State     string
	Transport string
	OK        int    `json:"tool_calls_ok"`
	StoppedBy string `json:"stopped_by"`
}

// The kinds that the play looks at.
const (
	kindNote    = "core.work.note.v1"
	kindVerdict = "core.work.tool_verdict.v1"
	kindOutcome = "core.work.loop_outcome.v1"
	engineDID   = "did:sync:system:engine"
	memberDID   = "did:sync:user:"
)

// start starts a run for a member, "" for the operator, and returns its thread.
func (v *v1) start(ctx context.Context, member, goal string) (string, error) {
	var started struct{ Thread string }
	request := map[string]any{"goal": goal, "max_turns": 4, "budget_usd": 0.05}
	err := v.do(ctx, http.MethodPost, "/v1/work/loop", member, request, &started)
	if err == nil && started.Thread == "" {
		err = errors.New("the answer to a start names no thread")
	}
	return started.Thread, err
}

// row returns a run's row.
func (v *v1) row(ctx context.Context, thread string) (r runRow, err error) {
	return r, v.do(ctx, http.MethodGet, "/v1/runs/"+url.PathEscape(thread), "", nil, &r)
}

// records returns the records of a thread, in their order.
func (v *v1) records(ctx context.Context, thread string) ([]workRecord, error) {
	var list struct{ Data []workRecord }
	err := v.do(ctx, http.MethodGet, "/v1/threads/"+url.PathEscape(thread)+"/records", "", nil, &list)
	return list.Data, err
}

// pollEvery is how often a run is asked how it stands.
const pollEvery = 200 * time.Millisecond

// ended waits for the end of a run. A daemon that is just being started again is waited for.
func (v *v1) ended(ctx context.Context, thread string, most time.Duration) (r runRow, err error) {
	for deadline := time.Now().Add(most); ; {
		r, err = v.row(ctx, thread)
		if err == nil && r.State != "running" {
			return r, nil
		}
		if time.Now().After(deadline) {
			if err == nil {
				err = fmt.Errorf("the run is still going after %v", most)
			}
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// said waits until a run has noted text.
func (v *v1) said(ctx context.Context, thread, text string, most time.Duration) error {
	for deadline := time.Now().Add(most); ; {
		list, err := v.records(ctx, thread)
		for _, r := range list {
			if r.Body.Kind == kindNote && r.Body.Text == text {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("the run did not note %q within %v: it has %d records", text, most, len(list)))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
