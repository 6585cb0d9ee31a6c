package gateway

import (
	"net/http"
	"strings"
)

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
)

// passesUp reports whether a client's header goes to the worker: what describes the body and the message, and nothing that
// says who the client is. Names are canonical. Mcp-Param- headers have names of the tool's choice.
func passesUp(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Type", "Last-Event-Id":
		return true
	case sessionHeader: // translated
		return false
	}
	if strings.Contains(name, "_") { // which many servers take for a hyphen
		switch http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) {
		case sessionHeader, versionHeader:
			return false
		}
	}
	return strings.HasPrefix(name, "Mcp-")
}

// passesDown reports whether a worker's header goes to the client. Cookies, redirects, challenges, the CORS headers and those
// that command a proxy in front (X-Accel-Redirect) do not.
func passesDown(name string) bool {
	switch name {
	case "Allow", "Cache-Control", "Content-Encoding", "Content-Language", "Content-Type", "Retry-After", "X-Accel-Buffering":
		return true
	case sessionHeader:
		return false
	}
	return strings.HasPrefix(name, "Mcp-")
}

// checkHeaders refuses what two programs could understand in two ways: a header twice of which there is one, and one that
// Connection declares to be for this hop only (RFC 9110 section 7.6.1).
func checkHeaders(h http.Header) *refusal {
	for _, name := range []string{sessionHeader, versionHeader, "Mcp-Method", "Mcp-Name", "Content-Type", "Last-Event-Id"} {
		if len(h[name]) > 1 {
			return badHeader(name)
		}
	}
	for name := range hops(h) {
		if passesUp(name) || name == sessionHeader || name == "Authorization" {
			return badHeader(name)
		}
	}
	return nil
}

// hops returns the canonical names that Connection lists.
func hops(h http.Header) map[string]bool {
	var names map[string]bool
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if names == nil {
				names = map[string]bool{}
			}
			names[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return names
}

// up returns the headers of the request to the worker.
func up(h http.Header, token, upstream string) http.Header {
	out := make(http.Header, len(h)+3)
	for name, values := range h {
		if passesUp(name) {
			out[name] = values
		}
	}
	out["Authorization"] = []string{"Bearer " + token}
	out["User-Agent"] = []string{"playground"}
	if upstream != "" {
		out[sessionHeader] = []string{upstream}
	}
	return out
}

// down copies the worker's headers to the client's answer. A value that holds one of the secrets stays here, wherever the
// worker put it, and so does leave to keep the answer in a cache that other tenants share.
func down(out, h http.Header, secrets ...string) {
	named := hops(h)
	for name, values := range h {
		// What describes the body has words that a short session id, such as "1", is a part of by chance.
		least := 1
		if !strings.HasPrefix(name, "Mcp-") {
			least = minSecret
		}
		if !passesDown(name) || named[name] || holds(values, secrets, least) || name == "Cache-Control" && shares(values) {
			continue
		}
		out[name] = values
	}
}

// minSecret is a length that no header has by chance.
const minSecret = 16

// holds reports whether a value has a secret of at least so many bytes in it.
func holds(values, secrets []string, least int) bool {
	for _, value := range values {
		for _, secret := range secrets {
			if len(secret) >= least && strings.Contains(value, secret) {
				return true
			}
		}
	}
	return false
}

// shares reports whether a directive lets a shared cache keep the answer to a request with Authorization (RFC 9111 section 3.5). The
// URL is the same for all tenants.
func shares(values []string) bool {
	for _, value := range values {
		for directive := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(directive, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "public", "s-maxage", "must-revalidate":
				return true
			}
		}
	}
	return false
}

// upstreamSession returns the session id of a worker's answer, "" if it has none; ok is false for what is none (visible ASCII
// characters, as the protocol says).
func upstreamSession(h http.Header) (id string, ok bool) {
	values := h[sessionHeader]
	if len(values) == 0 {
		return "", true
	}
	if len(values) > 1 || values[0] == "" || len(values[0]) > 1024 {
		return "", false
	}
	for _, c := range []byte(values[0]) {
		if c < 0x21 || c > 0x7e {
			return "", false
		}
	}
	return values[0], true
}

func isEvents(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
