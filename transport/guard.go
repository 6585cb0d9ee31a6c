package transport

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A guard decides which Host and Origin values a request may have. Browsers send both truthfully; a page of an attacker
// can make a browser call a server on its own network by pointing a name of his at it (DNS rebinding), but then the name
// is in Host.
type guard struct {
	hosts   []string
	origins []string
}

func newGuard(hosts, origins []string) guard {
	g := guard{}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	for _, o := range origins {
		g.origins = append(g.origins, strings.ToLower(strings.TrimSuffix(o, "/")))
	}
	return g
}

// host reports whether the request names a host that is ours: loopback, the very address it was sent to (an address
// cannot be rebound), or a configured name.
func (g guard) host(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if name == "" {
		return false
	}
	if slices.Contains(g.hosts, host) || slices.Contains(g.hosts, name) || name == "localhost" {
		return true
	}
	ip := net.ParseIP(name)
	if ip == nil {
		return false
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if tcp, ok := local.(*net.TCPAddr); ok && tcp.IP.Equal(ip) {
			return true
		}
	}
	return ip.IsLoopback()
}

// origin returns the request's Origin, "" if it has none (it is no browser's), and whether it may be served.
func (g guard) origin(r *http.Request) (origin string, ok bool) {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return "", true
	}
	origin = strings.ToLower(values[0])
	if len(values) > 1 {
		return origin, false
	}
	if slices.Contains(g.origins, origin) {
		return values[0], true
	}
	// A page of this very server; its Host was checked before.
	u, err := url.Parse(origin)
	return values[0], err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Host == strings.ToLower(r.Host) &&
		u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == ""
}

// allowOrigin lets the browser hand the answer to the page.
func allowOrigin(w http.ResponseWriter, origin string) {
	w.Header().Add("Vary", "Origin")
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate")
}

// preflight answers OPTIONS. It comes before the token is checked, because browsers send none with it.
func preflight(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", allowedMethods)
	if r.Header.Get("Origin") != "" {
		w.Header().Set("Access-Control-Allow-Methods", allowedMethods)
		w.Header().Set("Access-Control-Max-Age", "600")
		// Mcp-Param-* headers have names of the client's choice, so what is asked for is allowed.
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) <= 1024 {
			w.Header().Set("Access-Control-Allow-Headers", asked)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// bearer returns the request's token. The scheme's case does not matter (RFC 9110 section 11.1).
func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	fields := strings.Fields(values[0])
	if len(fields) != 2 || !strings.EqualFold(fields[0], "bearer") {
		return "", false
	}
	return fields[1], true
}

// accepts reports whether the Accept header allows a media type.
func accepts(r *http.Request, want string) bool {
	family, _, _ := strings.Cut(want, "/")
	for _, value := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			kind, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case want, family + "/*", "*/*":
				return true
			}
		}
	}
	return false
}
