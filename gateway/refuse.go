package gateway

import (
	"encoding/json"
	"net/http"

	"playground/transport"
)

// A refusal is an answer of the gateway's own. No text names an address, a file or a token.
type refusal struct {
	status        int
	message, hint string
}

func (f refusal) write(w http.ResponseWriter, id json.RawMessage) {
	transport.Refuse(w, id, f.status, f.message, f.hint)
}

// unknown is what everybody is told whose request was sent and not answered.
const unknown = "; the outcome is unknown and the request was not retried"

const unknownHint = "find out whether it took effect before you send it again"

func late() refusal {
	return refusal{http.StatusGatewayTimeout, "the worker did not answer in time" + unknown, unknownHint}
}

func broken() refusal {
	return refusal{http.StatusBadGateway, "the connection to the worker broke before the answer was complete" + unknown, unknownHint}
}

func ended() refusal {
	return refusal{http.StatusServiceUnavailable, "the session was closed during the request" + unknown, unknownHint}
}

func tooLarge() refusal {
	return refusal{http.StatusBadGateway, "the worker's answer is over the limit" + unknown, "ask for less, or ask the operator to raise gateway.response_bytes"}
}

func rejected() refusal {
	return refusal{http.StatusBadGateway, "the worker did not accept the gateway's request", "ask the operator: the worker's token or address is not the one it is configured with"}
}

func unreachable() refusal {
	return refusal{http.StatusServiceUnavailable, "the worker cannot be reached; the request was not sent", "try again in a moment; if it stays so, ask the operator"}
}

func noWorker() refusal {
	return refusal{http.StatusServiceUnavailable, "no worker is configured for this account", "ask the operator to add one to the workers' manifest"}
}

func noSessionGiven() refusal {
	return refusal{http.StatusBadRequest, "a session is required", "send initialize first, then its Mcp-Session-Id with every request"}
}

func tooManySessions() refusal {
	return refusal{http.StatusTooManyRequests, "too many open sessions", "end one with DELETE, or wait until an idle one expires"}
}

func tooManyRequests() refusal {
	return refusal{http.StatusTooManyRequests, "too many requests at once", "wait for the answers to earlier ones, then try again"}
}

func shuttingDown() refusal {
	return refusal{http.StatusServiceUnavailable, "the server is shutting down", "try again in a moment"}
}

func badHeader(name string) *refusal {
	return &refusal{http.StatusBadRequest, "the header " + name + " is there twice or is named by Connection", "send it once"}
}

func unknownSession(w http.ResponseWriter, id json.RawMessage) { transport.RefuseSession(w, id) }

// refuseEvent writes the refusal as an event of the stream in which the answer was to come.
func refuseEvent(w http.ResponseWriter, id json.RawMessage, f refusal) {
	_, _ = w.Write([]byte("event: message\ndata: " + string(transport.RefusalBody(id, f.message, f.hint)) + "\n\n")) // the client has left: nobody to tell
}
