package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/inference"
)

// What a model keeps for itself goes back to it as it came, in its place; the other API is not told of it.
func TestThinking(t *testing.T) {
	const answer = `event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"big","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"eHg="}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`
	all := dialects()
	f := serve(t, stream(answer), stream(all[0].text))
	p, _ := all[0].provider(t, f.URL)
	response, err := p.Complete(t.Context(), ask(), func(text string) { t.Errorf("heard %q", text) })
	if err != nil {
		t.Fatal(err)
	}
	next := ask()
	next.Messages = append(next.Messages[:1:1], inference.Message{Role: inference.Assistant, Content: response.Content}, next.Messages[0])
	if _, err := p.Complete(t.Context(), next, nil); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Messages []struct{ Content []map[string]string }
	}
	if err := json.Unmarshal([]byte(f.bodies[1]), &sent); err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "eHg="}}
	if diff := cmp.Diff(want, sent.Messages[1].Content); diff != "" {
		t.Errorf("sent back (-want +got):\n%s", diff)
	}

	f = serve(t, stream(all[1].text))
	p, _ = all[1].provider(t, f.URL)
	if _, err := p.Complete(t.Context(), next, nil); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(f.bodies[0], "c2ln") {
		t.Errorf("sent: %s", f.bodies[0])
	}
}
