package main

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/faculty"
	"playground/jail"
	"playground/job"
)

// Workers are counted by state, and not named; a daemon that is away shows as that and nothing else.
func TestFacultyCounts(t *testing.T) {
	var listErr error
	registry := newRegistry(&suiteCollector{
		jobs:  func(context.Context) (job.HostStatus, error) { return job.HostStatus{}, nil },
		jails: func(context.Context) ([]jail.Sandbox, error) { return nil, nil },
	})
	registry.MustRegister(facultyCollector{func(context.Context) (faculty.Listing, error) {
		return faculty.Listing{Workers: []faculty.Worker{
			{ID: "ann", State: faculty.Running, Health: &faculty.Health{OK: true}}, {State: faculty.Running, Health: &faculty.Health{}}, {State: faculty.Failed},
		}}, listErr
	}})
	gather := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]float64)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if name := label.GetName(); name == "state" || name == "daemon" {
						got[label.GetValue()] = m.GetGauge().GetValue()
					}
				}
				if family.GetName() == "playground_faculty_workers_unhealthy" {
					got["unhealthy"] = m.GetGauge().GetValue()
				}
			}
		}
		return got
	}
	want := map[string]float64{"jaild": 1, "reaperd": 1, "facultyd": 1, "unhealthy": 1,
		"running": 2, "failed": 1, "stopped": 0, "starting": 0, "backoff": 0, "stopping": 0}
	if diff := cmp.Diff(want, gather()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	listErr = errors.New("away")
	if diff := cmp.Diff(map[string]float64{"jaild": 1, "reaperd": 1, "facultyd": 0}, gather()); diff != "" {
		t.Errorf("away (-want +got):\n%s", diff)
	}
}
