package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"playground/jail"
	"playground/job"
)

// What each tenant uses is told by name and resource to the operator, and to nobody at the loopback port; numbers of a daemon
// that does not know them are left out.
func TestUsageMetrics(t *testing.T) {
	registry := newRegistry(&suiteCollector{
		jobs:  func(context.Context) (job.HostStatus, error) { return job.HostStatus{Active: 2}, nil },
		jails: func(context.Context) ([]jail.Sandbox, error) { return nil, nil },
	})
	known := usageCollector{func(context.Context) (map[string]map[string]int64, error) {
		return map[string]map[string]int64{"ann": {"maxproc": 3, "memoryuse": 1 << 20, "wallclock": 9}}, nil
	}}
	unknown := usageCollector{func(context.Context) (map[string]map[string]int64, error) { return nil, errors.New("no accounts") }}
	for name, test := range map[string]struct {
		from prometheus.Gatherer
		want int
	}{"operator": {named(registry, known), 2}, "nothing known": {named(registry, unknown), 0}, "loopback port": {registry, 0}} {
		families, err := test.from.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got, active := 0, false
		for _, family := range families {
			text := family.String()
			switch family.GetName() {
			case "playground_tenant_usage":
				got = len(family.GetMetric())
				if !strings.Contains(text, "ann") || strings.Contains(text, "wallclock") {
					t.Errorf("usage: %s", text)
				}
			case "playground_jobs_active":
				active = true
			default:
				if strings.Contains(text, "ann\"") {
					t.Errorf("%s names a tenant: %s", name, text)
				}
			}
		}
		if got != test.want || !active {
			t.Errorf("%s: %d samples of use, want %d; others: %v", name, got, test.want, active)
		}
	}
}
