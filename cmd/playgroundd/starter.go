package main

import (
	"context"
	"encoding/json"
	"time"

	"playground/confine"
	"playground/localapi/workerapi"
	"playground/workloop"
)

// A starter asks playground-reaperd for confined workers.
type starter struct{ workers *workerapi.Client }

// Start implements workloop.Starter.
func (s starter) Start(ctx context.Context, r workloop.WorkerRequest) (workloop.Worker, error) {
	request := workerapi.Request{Run: r.Run, Bounds: confine.Bounds{DataBytes: r.Memory}}
	if r.CPU == 0 {
		r.CPU = r.WallClock // no worker computes for longer than its run lasts
	}
	if r.CPU > 0 {
		request.Bounds.CPUSeconds = int64((r.CPU + time.Second - 1) / time.Second)
	}
	worker, err := s.workers.Start(ctx, request)
	if err != nil {
		return workloop.Worker{}, err
	}
	report, err := json.Marshal(worker.Report)
	if err != nil { // plain values: it does not happen
		report = nil
	}
	layers := make([]string, 0, len(worker.Report.Layers))
	for _, layer := range worker.Report.Layers {
		layers = append(layers, string(layer.Name))
	}
	return workloop.Worker{PID: worker.PID, Layers: layers, Report: report, Doors: worker.Doors, Stdin: worker.Stdin, Stdout: worker.Stdout,
		Wait: func(ctx context.Context) (workloop.Exit, error) { return exitOf(worker.Wait(ctx)) }, Kill: worker.Kill}, nil
}

func exitOf(exit confine.Exit, err error) (workloop.Exit, error) {
	cleanup, encodeErr := json.Marshal(exit.Cleanup)
	if encodeErr != nil {
		cleanup = nil
	}
	return workloop.Exit{Code: exit.Status, Signal: exit.Signal, Cleanup: cleanup}, err
}
