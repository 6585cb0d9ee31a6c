package transport

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A refusal is an answer to a request that does not reach MCP. Its body is a JSON-RPC error, because that is what clients
// show to people.
type refusal struct {
	status  int
	code    int
	message string
	hint    string
}

// JSON-RPC codes. Those of the server's own range follow the TypeScript SDK, which clients have seen before.
const (
	codeParse      = -32700
	codeInvalid    = -32600
	codeServer     = -32000
	codeNoSession  = -32001
	allowedMethods = "POST, GET, DELETE, OPTIONS"
)

// write sends the refusal as the answer to the request with id, which may be nil.
func (f refusal) write(w http.ResponseWriter, id json.RawMessage) {
	data := f.body(id)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(f.status)
	_, _ = w.Write(data)
}

// body is the refusal as a JSON-RPC message.
func (f refusal) body(id json.RawMessage) []byte {
	type body struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int               `json:"code"`
			Message string            `json:"message"`
			Data    map[string]string `json:"data,omitempty"`
		} `json:"error"`
	}
	b := body{Version: "2.0", ID: id}
	if id == nil {
		b.ID = json.RawMessage("null")
	}
	b.Error.Code, b.Error.Message = f.code, f.message
	if f.hint != "" {
		b.Error.Data = map[string]string{"hint": f.hint}
	}
	data, err := json.Marshal(b)
	if err != nil { // only an id that is no JSON can do that
		data = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	return data
}

// fromText makes a JSON-RPC error of a refusal that the SDK wrote as a text.
func fromText(text string, id json.RawMessage) []byte {
	f := refusal{code: codeInvalid, message: text}
	if strings.HasPrefix(text, "JSON RPC not handled") {
		f = refusal{code: jsonrpc.CodeMethodNotFound, message: "method not found", hint: "this server offers tools only"}
	}
	return f.body(id)
}

// The refusals without variable parts. All failures of authentication share one, and so do unknown and foreign sessions.
func unauthorized() refusal {
	return refusal{http.StatusUnauthorized, codeServer, "a valid bearer token is required", "send the header Authorization: Bearer TOKEN"}
}

func unknownSession() refusal {
	return refusal{http.StatusNotFound, codeNoSession, "session not found", "send initialize again, without Mcp-Session-Id"}
}

func tooMany(what string) refusal {
	return refusal{http.StatusTooManyRequests, codeServer, what, "wait for the answers to earlier ones, then try again"}
}

func shuttingDown() refusal {
	return refusal{http.StatusServiceUnavailable, codeServer, "the server is shutting down", "try again in a moment"}
}

func badMethod() refusal {
	return refusal{http.StatusMethodNotAllowed, codeInvalid, "method not allowed", ""}
}
