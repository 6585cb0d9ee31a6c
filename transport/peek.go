package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// batchCalls bounds a JSON-RPC batch, which only the version 2025-03-26 has: its calls run at once.
const batchCalls = 32

// bodyTime bounds how long a body may take to arrive. It is not the server's ReadTimeout, because that would also end
// the watch for a client that goes away during a long call.
const bodyTime = time.Minute

// A message is what must be known of a body to choose who serves it. The SDK parses it properly later; a wrong guess here
// could only reach a handler that refuses it.
type message struct {
	method string
	id     json.RawMessage // a string or number, or nil
	batch  bool
}

// peek looks into a body.
func peek(body []byte) (message, *refusal) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 {
		return message{}, &refusal{http.StatusBadRequest, codeInvalid, "the body is empty", "send one JSON-RPC message"}
	}
	if !utf8.Valid(body) {
		// A decoder would silently replace the bytes, and a file would be written with other content than was sent.
		return message{}, &refusal{http.StatusBadRequest, codeParse, "the body is not UTF-8", "send bytes as base64"}
	}
	malformed := func(err error) *refusal {
		return &refusal{http.StatusBadRequest, codeParse, fmt.Sprintf("malformed JSON: %v", err), "send one JSON-RPC message"}
	}
	switch trimmed[0] {
	case '{':
		var m struct {
			Method json.RawMessage `json:"method"`
			ID     json.RawMessage `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(trimmed, &m); err != nil {
			return message{}, malformed(err)
		}
		found := message{}
		if json.Unmarshal(m.Method, &found.method) != nil {
			found.method = ""
		}
		if found.method == "" && m.Result == nil && m.Error == nil {
			return message{}, &refusal{http.StatusBadRequest, codeInvalid, "the message has no method", "send a JSON-RPC request"}
		}
		if len(m.ID) > 0 && strings.IndexByte(`"-0123456789`, m.ID[0]) >= 0 {
			found.id = m.ID
		}
		return found, nil
	case '[':
		var all []json.RawMessage
		if err := json.Unmarshal(trimmed, &all); err != nil {
			return message{}, malformed(err)
		}
		if len(all) > batchCalls {
			return message{}, &refusal{http.StatusBadRequest, codeInvalid, fmt.Sprintf("a batch of %d messages; %d is the most", len(all), batchCalls), "send them one by one"}
		}
		return message{batch: true}, nil
	}
	if !json.Valid(trimmed) {
		return message{}, malformed(errors.New("not a value"))
	}
	return message{}, &refusal{http.StatusBadRequest, codeInvalid, "the body is not a JSON-RPC message", "send a JSON object"}
}

// readBody reads a request's whole body within the limit, whether or not its length was announced.
func (t *Transport) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	limit := t.options.BodyBytes
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, codeInvalid, fmt.Sprintf("the request is over the limit of %d bytes", limit), "write large files in parts"}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // best effort: a test's recorder has none
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	// MaxBytesReader also tells the server to close the connection instead of reading on.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		return body, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	return nil, &refusal{http.StatusBadRequest, codeInvalid, "the body did not arrive whole", "send it again"}
}
