package main

import (
	"playground/job"
	"playground/localapi/serviceapi"
	"playground/reaper"
)

// services are the manager's, seen with their processes.
type services struct {
	*job.Manager
	runner *reaper.Runner
}

var _ serviceapi.Services = services{}

// List implements serviceapi.Services.
func (s services) List() []serviceapi.Service {
	all, vitals := s.Services(), s.runner.Vitals()
	list := make([]serviceapi.Service, len(all))
	for i, one := range all {
		list[i] = serviceapi.Service{Service: one, Pid: vitals[one.ID].Pid, Usage: vitals[one.ID].Usage}
	}
	return list
}
