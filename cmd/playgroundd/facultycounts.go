package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"playground/config"
	"playground/faculty"
	"playground/localapi/facultyapi"
)

// countWorkers adds the metrics of faculty workers, where the host has some to keep.
func countWorkers(registry *prometheus.Registry, c config.Config) {
	if c.Faculty.Definitions != "" {
		registry.MustRegister(facultyCollector{facultyapi.NewClient(c.FacultySocket()).List})
	}
}

// A facultyCollector asks playground-facultyd at each scrape.
type facultyCollector struct {
	list func(context.Context) (faculty.Listing, error)
}

// The metrics of faculty workers. They are counted, not named: a name would tell the tenants.
var (
	descWorkers   = prometheus.NewDesc("playground_faculty_workers", "Faculty workers by state.", []string{"state"}, nil)
	descUnhealthy = prometheus.NewDesc("playground_faculty_workers_unhealthy", "Running faculty workers that did not answer the last check.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c facultyCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descWorkers
	out <- descUnhealthy
}

// Collect implements prometheus.Collector. Numbers of a daemon that does not answer are left out, not zero.
func (c facultyCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	listing, err := c.list(ctx)
	out <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, truth(err == nil), "facultyd")
	if err != nil {
		return
	}
	counts := map[faculty.State]int{faculty.Stopped: 0, faculty.Starting: 0, faculty.Running: 0, faculty.Backoff: 0, faculty.Failed: 0, faculty.Stopping: 0}
	unhealthy := 0
	for _, w := range listing.Workers {
		counts[w.State]++
		if w.Health != nil && !w.Health.OK {
			unhealthy++
		}
	}
	for state, n := range counts {
		out <- prometheus.MustNewConstMetric(descWorkers, prometheus.GaugeValue, float64(n), string(state))
	}
	out <- prometheus.MustNewConstMetric(descUnhealthy, prometheus.GaugeValue, float64(unhealthy))
}
