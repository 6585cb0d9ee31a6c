package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"playground/workapi"
)

// An instance is /v1 over HTTP with a token of the operator's, as a program on another machine would use it.
type instance struct {
	token string
	id    string // of the token
	http  http.Client
}

// A request is one call of the API.
type request struct {
	method, path string
	member       string // the tenant that the operator acts for; "" is the operator
	body         any
}

// String shows the request on one line.
func (r request) String() string {
	text := r.method + " " + r.path
	if r.member != "" {
		text += "  as " + didOf(r.member)
	}
	if r.body != nil {
		body, _ := json.Marshal(r.body) // ours always have a JSON form
		text += "  " + string(body)
	}
	return text
}

// didOf is the DID of a tenant.
func didOf(tenant string) string { return "did:sync:user:" + tenant }

// A reply is what came back.
type reply struct {
	status int
	body   []byte
	took   time.Duration
}

// refusal is the code of a refused request, with the status.
func (r reply) refusal() string {
	var e struct{ Code, Message string }
	r.into(&e)
	return fmt.Sprintf("%d %s: %s", r.status, e.Code, e.Message)
}

// into decodes the answer; what is not there stays zero, and a check then says what is wrong.
func (r reply) into(v any) { _ = json.Unmarshal(r.body, v) }

// maxReply bounds an answer; a thread of the demonstration has a few dozen records.
const maxReply = 16 << 20

// show shows a request, sends it, and decodes a good answer. The caller shows what of the answer matters.
func (d *demo) show(ctx context.Context, r request, out any) (reply, error) {
	d.t.asked("http", r.String())
	return d.send(ctx, r, out)
}

// send sends a request. The error is that of an answer that did not come, or is not JSON.
func (d *demo) send(ctx context.Context, r request, out any) (got reply, err error) {
	began := time.Now()
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return got, err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, r.method, "http://"+d.suite.Config.HTTP.Listen+r.path, body)
	if err != nil {
		return got, err
	}
	request.Header.Set("Content-Type", "application/json")
	if d.api.token != "" {
		request.Header.Set("Authorization", "Bearer "+d.api.token)
	}
	if r.member != "" {
		request.Header.Set(workapi.ActorHeader, didOf(r.member))
	}
	response, err := d.api.http.Do(request)
	if err != nil {
		return got, fmt.Errorf("cannot ask %s: %w", r.path, err)
	}
	defer response.Body.Close()
	got.status = response.StatusCode
	got.body, err = io.ReadAll(io.LimitReader(response.Body, maxReply))
	got.took = time.Since(began)
	if err == nil && response.StatusCode/100 == 2 && out != nil {
		err = json.Unmarshal(got.body, out)
	}
	if err != nil {
		return got, fmt.Errorf("cannot read the answer of %s: %w", r.path, err)
	}
	return got, nil
}

// until sends a request again and again until holds says so, for a minute at most. It reports whether it came to that.
func (d *demo) until(ctx context.Context, r request, out any, holds func() bool) (bool, error) {
	return eventually(ctx, func() (bool, error) {
		got, err := d.send(ctx, r, out)
		return got.status/100 == 2 && holds(), err
	})
}

// eventually asks until the answer is yes, for a minute at most.
func eventually(ctx context.Context, holds func() (bool, error)) (bool, error) {
	const pause, most = 50 * time.Millisecond, time.Minute
	for deadline := time.Now().Add(most); ; {
		if yes, err := holds(); yes || err != nil || time.Now().After(deadline) {
			return yes, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
