package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"playground/catalogue"
)

// batchCalls bounds a JSON-RPC batch, which only the version 2025-03-26 has: its calls run at once, and each of their answers may be
// as large as an answer can be.
const batchCalls = 8

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
		found, bad := catalogue.Inspect(trimmed)
		if bad != nil {
			return message{id: bad.ID}, &refusal{http.StatusBadRequest, bad.Code, bad.Text, bad.Hint}
		}
		return message{method: found.Method, id: found.ID}, nil
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

// readBody reads a request's whole body within the limit, whether or not its length was announced. What is over smallBody
// needs one of the tenant's places for large requests, which the caller gives back.
func (t *Transport) readBody(w http.ResponseWriter, r *http.Request, who *caller, l *load) ([]byte, *refusal) {
	limit := t.options.BodyBytes
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, codeInvalid, fmt.Sprintf("the request is over the limit of %d bytes", limit), "write large files in parts"}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	control := http.NewResponseController(w)
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	// MaxBytesReader also tells the server to close the connection instead of reading on.
	source := http.MaxBytesReader(w, r.Body, limit)
	var body bytes.Buffer
	read := func(from io.Reader) *refusal {
		_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // best effort: a test's recorder has none
		_, err := body.ReadFrom(from)
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return tooLarge
		}
		return &refusal{http.StatusBadRequest, codeInvalid, "the body did not arrive whole", "send it again"}
	}
	if refused := read(io.LimitReader(source, smallBody)); refused != nil || body.Len() < smallBody {
		return body.Bytes(), refused
	}
	if !l.takeLarge(r.Context(), who) {
		refused := tooMany("too many large requests at once")
		return nil, &refused
	}
	// All at once: a buffer that grows makes several times its size in garbage.
	body.Grow(int(max(r.ContentLength-smallBody, 0)) + bytes.MinRead)
	refused := read(source)
	return body.Bytes(), refused
}
