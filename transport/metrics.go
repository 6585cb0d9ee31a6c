package transport

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count requests and calls. No label has a value that a client chooses, so their number is bounded.
type metrics struct {
	requests *prometheus.CounterVec
	denied   prometheus.Counter
	calls    *prometheus.HistogramVec
}

func newMetrics(registry *prometheus.Registry, sessions func() int) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "playground_http_requests_total", Help: "HTTP requests by method and status.",
		}, []string{"method", "code"}),
		denied: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "playground_auth_failures_total", Help: "Requests without a valid token.",
		}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "playground_tool_call_seconds", Help: "Tool calls by tool and outcome: ok, tool_error, protocol_error, cancelled.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"tool", "outcome"}),
	}
	registry.MustRegister(m.requests, m.denied, m.calls, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "playground_mcp_sessions", Help: "Open MCP sessions (protocol versions up to 2025-11-25).",
	}, func() float64 { return float64(sessions()) }))
	return m
}

func (m *metrics) observe(tool, outcome string, took time.Duration) {
	m.calls.WithLabelValues(knownTool(tool), outcome).Observe(took.Seconds())
}

func knownTool(name string) string {
	switch name {
	case "open_session", "exec", "read", "write", "job_exec", "job_poll", "job_cancel", "close_session":
		return name
	}
	return "other"
}

func knownMethod(method string) string {
	switch method {
	case http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions, http.MethodHead, http.MethodPut:
		return method
	}
	return "other"
}

func statusText(status int) string { return strconv.Itoa(status) }
