package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"playground/config"
	"playground/faculty"
	"playground/localapi/facultyapi"
	"playground/localapi/userapi"
	"playground/preflight"
)

// A facultyState is how playground-facultyd and its workers are.
type facultyState struct {
	daemon  userapi.Daemon
	listing faculty.Listing
	summary string // in one line
}

// facultyStateOf asks the daemon. One that does not answer is a part of the answer.
func facultyStateOf(ctx context.Context, c config.Config) facultyState {
	client := facultyapi.NewClient(c.FacultySocket())
	defer client.Disconnect()
	s := facultyState{daemon: userapi.Daemon{Name: "playground-facultyd", State: userapi.Up}}
	probe, err := client.Probe(ctx)
	if err == nil {
		s.daemon.Pid, s.daemon.Since, s.daemon.UptimeS = int(probe.PID), probe.Since, int64(time.Since(probe.Since).Seconds())
		s.listing, err = client.List(ctx)
	}
	if err != nil {
		s.daemon = userapi.Daemon{Name: s.daemon.Name, State: userapi.Down, Error: err.Error(), Hint: startFacultyd}
		s.listing.Problem, s.summary = err.Error(), "unknown: "+err.Error()
		return s
	}
	s.summary = summary(s.listing)
	return s
}

// summary counts workers by state.
func summary(listing faculty.Listing) string {
	counts := make(map[string]int)
	for _, w := range listing.Workers {
		word := string(w.State)
		if w.Health != nil && !w.Health.OK {
			word += " but failing"
		}
		counts[word]++
	}
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[word], word))
	}
	text := strings.Join(parts, ", ")
	if text == "" {
		text = "none defined"
	}
	if listing.Problem != "" {
		text += "; " + listing.Problem
	}
	return text
}

// facultyCheck is doctor's finding about the workers; false where the host has none to keep. It is never a failure: the suite
// serves without them.
func facultyCheck(ctx context.Context, c config.Config) (preflight.Check, bool) {
	const name = "faculty workers"
	if c.Faculty.Definitions == "" {
		return preflight.Check{}, false
	}
	if _, err := definitions(c); err != nil {
		return preflight.Check{Name: name, Status: preflight.Warn, Detail: err.Error(), Remedy: "playground faculty check"}, true
	}
	state := facultyStateOf(ctx, c)
	if troubled(state.listing) != nil {
		return preflight.Check{Name: name, Status: preflight.Warn, Detail: state.summary, Remedy: "playground faculty list; playground faculty logs WORKER"}, true
	}
	return preflight.Check{Name: name, Status: preflight.Pass, Detail: state.summary}, true
}
