package main

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"

	"playground/config"
	"playground/fault"
	"playground/localapi"
)

// sockets are what the daemon listens on; metrics is nil where nobody asked for it.
type sockets struct{ mcp, operator, metrics net.Listener }

// listen returns the listeners. Sockets that a service manager opened are used first, by the names "mcp", "operator" and
// "metrics"; unnamed ones are the MCP endpoint, then the metrics.
func listen(c config.Config) (sockets, error) {
	passed, err := activation.ListenersWithNames()
	if err != nil {
		return sockets{}, fmt.Errorf("cannot take the service manager's sockets: %w", err)
	}
	var s sockets
	if given := passed["operator"]; len(given) > 0 {
		s.operator = given[0]
		delete(passed, "operator") // what is left is told apart by pick
	}
	s.mcp, s.metrics = pick(passed)
	if s.mcp == nil {
		s.mcp, err = open("http.listen", c.HTTP.Listen)
	}
	if err == nil && s.metrics == nil && c.HTTP.MetricsListen != "" {
		s.metrics, err = open("http.metrics_listen", c.HTTP.MetricsListen)
	}
	if err == nil && s.operator == nil {
		s.operator, err = openLocal(c.OperatorSocket())
	}
	if err != nil {
		s.close()
		return sockets{}, err
	}
	return s, nil
}

// close closes what is open; nothing was accepted yet, so there is nothing to lose.
func (s sockets) close() {
	for _, listener := range []net.Listener{s.mcp, s.operator, s.metrics} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// openLocal keeps a nil *net.UnixListener from becoming a net.Listener that is not nil.
func openLocal(path string) (net.Listener, error) {
	listener, err := localapi.Listen(path, 0o660)
	if err != nil {
		return nil, err
	}
	return listener, nil
}

// pick sorts the passed sockets; what has no use here is closed.
func pick(passed map[string][]net.Listener) (mcp, metrics net.Listener) {
	var rest []net.Listener
	for name, listeners := range passed {
		for _, listener := range listeners {
			switch {
			case name == "metrics" && metrics == nil:
				metrics = listener
			case mcp == nil:
				mcp = listener
			default:
				rest = append(rest, listener)
			}
		}
	}
	for _, listener := range rest {
		if metrics == nil {
			metrics = listener
			continue
		}
		_ = listener.Close() // nobody was told of it
	}
	return mcp, metrics
}

// open listens at a configured address.
func open(key, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot listen at %s", address).
			WithHint("another program may have the port; change %s in the configuration", key)
	}
	return listener, nil
}
