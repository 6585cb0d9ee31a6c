package main

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"

	"playground/fault"
)

// listen returns the listeners of the MCP endpoint and, if an address is given, of the metrics. Sockets that a service
// manager opened are used first, by the names "mcp" and "metrics"; unnamed ones are the MCP endpoint, then the metrics.
func listen(address, metricsAddress string) (mcp, metrics net.Listener, err error) {
	passed, err := activation.ListenersWithNames()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot take the service manager's sockets: %w", err)
	}
	mcp, metrics = pick(passed)
	if mcp == nil {
		if mcp, err = open("http.listen", address); err != nil {
			return nil, nil, err
		}
	}
	if metrics == nil && metricsAddress != "" {
		if metrics, err = open("http.metrics_listen", metricsAddress); err != nil {
			_ = mcp.Close() // nothing was accepted on it
			return nil, nil, err
		}
	}
	return mcp, metrics, nil
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
