package catalogue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A Message is what is known of a JSON-RPC message before the SDK parses it.
type Message struct {
	Method string          // "" for a response
	ID     json.RawMessage // a string or number, or nil
}

// A BadMessage says why a message cannot be served, in words for whoever wrote the client. The SDK would say it in Go's, quote
// everything, and end a connection over stdio.
type BadMessage struct {
	Code       int // of JSON-RPC
	Text, Hint string
	ID         json.RawMessage // as in Message
}

// A brief is a member's value if it is short, and a sign that there is one otherwise: arguments may be megabytes.
type brief []byte

// UnmarshalJSON implements json.Unmarshaler.
func (b *brief) UnmarshalJSON(p []byte) error {
	if len(p) > 4096 {
		p = []byte("{}")
	}
	*b = bytes.Clone(p)
	return nil
}

// exact reports whether a JSON number survives a float64, which is what the SDK keeps of an id.
func exact(number []byte) bool {
	n, err := strconv.ParseInt(string(number), 10, 64)
	return err == nil && n >= -1<<53 && n <= 1<<53
}

// Inspect looks into one message that is no batch. What it lets through may still be wrong in ways that the SDK finds.
func Inspect(body []byte) (Message, *BadMessage) {
	var m map[string]brief // not a struct, which would take "Method" for "method"
	if err := json.Unmarshal(body, &m); err != nil {
		return Message{}, &BadMessage{jsonrpc.CodeParseError, fmt.Sprintf("malformed JSON: %v", err), "send one JSON-RPC message", nil}
	}
	found := Message{}
	if id := m["id"]; len(id) > 0 && strings.IndexByte(`"-0123456789`, id[0]) >= 0 {
		if id[0] != '"' && !exact(id) {
			// The SDK would answer with another number, and the client would wait for ever.
			return Message{}, &BadMessage{jsonrpc.CodeInvalidRequest, "the id is no string and no whole number up to 2^53", "send another id", nil}
		}
		found.ID = json.RawMessage(id)
	}
	invalid := func(text, hint string) (Message, *BadMessage) {
		return Message{}, &BadMessage{jsonrpc.CodeInvalidRequest, text, hint, found.ID}
	}
	if json.Unmarshal(m["method"], &found.Method) != nil {
		found.Method = ""
	}
	if found.Method == "" && m["result"] == nil && m["error"] == nil {
		return invalid("the message has no method", "send a JSON-RPC request")
	}
	if string(m["jsonrpc"]) != `"2.0"` {
		return invalid(`the message has no "jsonrpc": "2.0"`, "MCP speaks JSON-RPC 2.0")
	}
	if odd := found.ID == nil && m["id"] != nil; odd || found.Method == "" || m["error"] != nil { // as few messages are
		if _, err := jsonrpc.DecodeMessage(body); err != nil {
			return invalid("the message is no request, notification or response", "an id is a string or a whole number up to 2^53, and a response has that of its request")
		}
	}
	if problem := checkParams(found.Method, m["params"]); problem != "" {
		return Message{}, &BadMessage{jsonrpc.CodeInvalidParams, problem, "see the MCP specification of " + found.Method, found.ID}
	}
	return found, nil
}

// memberKinds are the JSON types of members of params by the first byte of their values.
var memberKinds = map[string]byte{
	"protocolVersion": '"', "capabilities": '{', "clientInfo": '{', "name": '"', "cursor": '"', "_meta": '{',
}

// checkParams says what is wrong with the params of the methods that clients call first; "" for nothing, or for params so large
// that only the SDK looks into them.
func checkParams(method string, params []byte) string {
	switch method {
	case "initialize", "tools/list", "tools/call":
	default:
		return ""
	}
	if len(params) == 0 || string(params) == "null" {
		if method == "tools/list" {
			return ""
		}
		return method + " needs params"
	}
	var members map[string]brief
	if json.Unmarshal(params, &members) != nil {
		return "params must be an object"
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, kind := members[name], memberKinds[name]
		if kind == 0 || value[0] == kind || string(value) == "null" {
			continue
		}
		if kind == '{' {
			return fmt.Sprintf("params.%s must be an object", name)
		}
		return fmt.Sprintf("params.%s must be a string", name)
	}
	return ""
}
