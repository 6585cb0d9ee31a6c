package main

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"playground/daemon"
	"playground/fault"
	"playground/job"
)

// Log events, in the message's place.
const (
	eventProofLost   = "proof_lost"
	eventUnreachable = "reaperd_unreachable"
	eventReachable   = "reaperd_reachable"
)

// lostPeriod is how often reaperd is asked. It refuses starts by itself from the first moment, so this is only how soon
// the operator's service manager sees the failure.
const lostPeriod = time.Second

// hostStatus asks reaperd what it runs.
type hostStatus func(context.Context) (job.HostStatus, error)

// checkLost returns a ProofLost error, and logs which processes were left, if the end of a job was not proved. A reaperd
// that cannot be reached is not lost proof: it keeps the fact on disk and will tell it.
func checkLost(ctx context.Context, ask hostStatus, logger zerolog.Logger) (error, bool) {
	status, err := ask(ctx)
	if err != nil {
		return nil, errors.Is(err, context.Canceled)
	}
	if status.Lost == nil {
		return nil, true
	}
	pids, jails := []int{}, []int(nil)
	for _, left := range status.Lost.Pids {
		if left.Pid < 0 { // a jail by its number: kill(1) would take -1 for every process
			jails = append(jails, -left.Pid)
			continue
		}
		pids = append(pids, left.Pid)
	}
	event, hint := logger.Error(), "end the processes that the log names, then run: playground ack"
	if len(jails) > 0 {
		event, hint = event.Ints("jails", jails), "look at the jails that the log names (jls -d -j NUMBER; a boot gives numbers anew), end what is left, then run: playground ack"
	}
	event.Str("tenant", status.Lost.Tenant).Str("job", status.Lost.JobID).Time("since", status.Lost.Since).
		Ints("pids", pids).Bool("others", status.Lost.Unknown).Str("reason", status.Lost.Reason).Msg(eventProofLost)
	return fault.New(fault.ProofLost, "the end of a job was not proved: all starts are refused").WithHint("%s", hint), true
}

// watchLost is the task that ends the daemon when proof is lost: it must not look healthy while nothing can start.
func watchLost(ask hostStatus, logger zerolog.Logger) daemon.Task {
	return daemon.NewTask("proof", func(ctx context.Context, ready func()) error {
		ready()
		ticker := time.NewTicker(lostPeriod)
		defer ticker.Stop()
		reachable := true
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			lost, answered := checkLost(ctx, ask, logger)
			if lost != nil {
				return lost
			}
			if answered != reachable && ctx.Err() == nil {
				reachable = answered
				event := eventUnreachable
				if reachable {
					event = eventReachable
				}
				logger.Warn().Msg(event)
			}
		}
	})
}
