package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// A usageCollector tells what each tenant uses, by name. It is for the operator's socket alone: the loopback port has no login,
// and a tenant that may use the host's network reaches it.
type usageCollector struct {
	usage func(context.Context) (map[string]map[string]int64, error) // by tenant and rctl(8) resource
}

var descUsage = prometheus.NewDesc("playground_tenant_usage", "What a tenant's commands use now, by rctl(8) resource.", []string{"tenant", "resource"}, nil)

// named returns all metrics, those that name tenants included.
func named(registry prometheus.Gatherer, usage usageCollector) prometheus.Gatherer {
	tenants := prometheus.NewRegistry()
	tenants.MustRegister(usage)
	return prometheus.Gatherers{registry, tenants}
}

// Describe implements prometheus.Collector.
func (c usageCollector) Describe(out chan<- *prometheus.Desc) { out <- descUsage }

// Collect implements prometheus.Collector: the resources that say most of a command, of the about 25 that the kernel counts. A
// daemon that does not answer gives none.
func (c usageCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	usage, err := c.usage(ctx)
	if err != nil {
		return
	}
	for tenant, resources := range usage {
		for _, resource := range []string{"maxproc", "nthr", "openfiles", "memoryuse", "swapuse", "pcpu"} {
			if n, ok := resources[resource]; ok {
				out <- prometheus.MustNewConstMetric(descUsage, prometheus.GaugeValue, float64(n), tenant, resource)
			}
		}
	}
}
