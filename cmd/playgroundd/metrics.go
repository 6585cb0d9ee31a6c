package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"playground/jail"
	"playground/version"
)

// scrapeLimit bounds what one scrape waits for the other daemons.
const scrapeLimit = 2 * time.Second

// newRegistry returns the metrics of this process and of what the other daemons say when they are asked.
func newRegistry(suite *suiteCollector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "playground_build_info", Help: "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": version.String()}})
	build.Set(1)
	registry.MustRegister(build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), suite)
	return registry
}

// A suiteCollector asks the root daemons at each scrape, so that no number is stale.
type suiteCollector struct {
	jobs  hostStatus
	jails func(context.Context) ([]jail.Sandbox, error)
}

// The metrics of the suite. Tenants are counted, not named: see usageCollector.
var (
	descUp       = prometheus.NewDesc("playground_daemon_up", "Whether the daemon answers.", []string{"daemon"}, nil)
	descActive   = prometheus.NewDesc("playground_jobs_active", "Commands that run now.", nil, nil)
	descRetained = prometheus.NewDesc("playground_jobs_retained", "Ended jobs whose output is kept.", nil, nil)
	descLost     = prometheus.NewDesc("playground_proof_lost", "1 while the end of a job is not proved and starts are refused.", nil, nil)
	descTenants  = prometheus.NewDesc("playground_sandboxes", "Sandboxes that exist.", nil, nil)
	descAttached = prometheus.NewDesc("playground_sandboxes_attached", "Sandboxes whose kernel object exists.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *suiteCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{descUp, descActive, descRetained, descLost, descTenants, descAttached} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. Numbers of a daemon that does not answer are left out, not zero.
func (c *suiteCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	status, err := c.jobs(ctx)
	gauge(descUp, truth(err == nil), "reaperd")
	if err == nil {
		gauge(descActive, float64(status.Active))
		gauge(descRetained, float64(status.Retained))
		gauge(descLost, truth(status.Lost != nil))
	}
	sandboxes, err := c.jails(ctx)
	gauge(descUp, truth(err == nil), "jaild")
	if err == nil {
		gauge(descTenants, float64(len(sandboxes)))
		gauge(descAttached, float64(attached(sandboxes)))
	}
}

func attached(sandboxes []jail.Sandbox) (count int) {
	for _, sandbox := range sandboxes {
		if sandbox.Attached {
			count++
		}
	}
	return count
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
