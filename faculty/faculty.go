// Package faculty keeps faculty workers: programs of the operator that serve MCP from inside tenants' sandboxes. It reads their
// definitions, and for each worker keeps one thing true: that it runs, or that it is known why not. What runs is a service
// of playground-reaperd, so that a worker's end is proved as a job's is; this package decides when it starts and stops.
//
// A worker gets its internal token as a file in the tenant's sandbox (stage.go): the token is never in an argument, an
// environment or a log.
package faculty

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"playground/jail"
	"playground/job"
)

// A Definition is one worker as the operator wants it.
type Definition struct {
	Tenant    string
	Name      string // tells a tenant's workers apart; may be ""
	Program   string // absolute, inside the sandbox
	Args      []string
	Address   netip.AddrPort // loopback, where it serves MCP
	TokenFile string         // on the host
	Env       map[string]string
	// RestartDelay is the wait before the first restart after an end of its own. Each further one waits twice as long.
	RestartDelay time.Duration
}

// ID names a worker on its host: the tenant, and the worker's name where it has one.
func (d Definition) ID() string {
	if d.Name == "" {
		return d.Tenant
	}
	return d.Tenant + "." + d.Name
}

// servicePrefix begins the names of all of our services.
const servicePrefix = "faculty"

// service is the worker's name among its tenant's services.
func (d Definition) service() string {
	if d.Name == "" {
		return servicePrefix
	}
	return servicePrefix + "-" + d.Name
}

// tokenDir is where tokens are staged inside a sandbox: where the system that it looks like keeps what a boot clears (hier(7)).
func tokenDir(isolation jail.Isolation) string {
	if isolation == jail.IsolationJail {
		return "/var/run/playground-faculty"
	}
	return "/run/playground-faculty"
}

// tokenPath is the worker's file there.
func (d Definition) tokenPath(isolation jail.Isolation) string {
	path := tokenDir(isolation) + "/token"
	if d.Name != "" {
		path += "." + d.Name
	}
	return path
}

// argv is what is executed. "{token_file}" and "{address}" stand for what only the host knows.
func (d Definition) argv(isolation jail.Isolation) []string {
	words := strings.NewReplacer("{token_file}", d.tokenPath(isolation), "{address}", d.Address.String())
	argv := []string{d.Program}
	for _, arg := range d.Args {
		argv = append(argv, words.Replace(arg))
	}
	return argv
}

// environment is all that the worker gets.
func (d Definition) environment(path, persona string) []string {
	env := []string{"PATH=" + path, "PERSONA=" + persona, "PILE=/pile/self.pile", "TRIBLESPACE_KEY=/pile/self.key"}
	for name, value := range d.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// A Worker is what is known of one worker at one moment.
type Worker struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Name    string    `json:"name,omitempty"`
	Address string    `json:"address"`
	State   State     `json:"state"`
	Since   time.Time `json:"since,omitzero"` // of the state
	// Run names one life of the worker; a report of its health is about one. "" while it does not run.
	Run      string    `json:"run,omitempty"`
	Pid      int       `json:"pid,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Restarts int       `json:"restarts"` // since the operator, or the daemon, last started it
	LastExit *Exit     `json:"last_exit,omitempty"`
	Problem  string    `json:"problem,omitempty"` // why it does not run, or what is wrong with its definition
	Retry    time.Time `json:"retry,omitzero"`    // when it is started again, in state backoff
	ByHand   bool      `json:"stopped_by_hand,omitempty"`
	// Stale: the definitions say something else by now, which the next start by hand takes over.
	Stale  bool             `json:"stale,omitempty"`
	Health *Health          `json:"health,omitempty"`
	Usage  map[string]int64 `json:"usage,omitempty"` // of all its processes, by rctl(8) resource
}

// An Exit is how a life of a worker ended.
type Exit struct {
	Run    string     `json:"run"`
	At     time.Time  `json:"at"`
	Result job.Result `json:"result"`
}

// String says it in a few words.
func (e Exit) String() string {
	r := e.Result
	text := string(r.Outcome)
	switch {
	case r.ExitCode != nil:
		text = fmt.Sprintf("exited with %d", *r.ExitCode)
	case r.Signal != "":
		text = "killed by " + r.Signal
	case r.Outcome == job.Cancelled:
		text = "stopped" // by the host, which the operator does not know as a cancelled command
	case r.Error != "":
		text += ": " + r.Error
	}
	if r.Cleanup.Killed > 0 && r.Outcome == job.Exited {
		text += fmt.Sprintf("; %d processes that it left were killed: a worker must stay in the foreground", r.Cleanup.Killed)
	}
	if !r.Cleanup.Proven {
		text += "; its clean-up was not proved"
	}
	return text
}

// Health is what whoever speaks to workers found: the transport, which makes an MCP initialize and a tools/list.
type Health struct {
	Run     string    `json:"run"` // the life that it is about
	OK      bool      `json:"ok"`
	Problem string    `json:"problem,omitempty"` // why not OK
	Server  string    `json:"server,omitempty"`  // name and version, as the worker says
	Tools   int       `json:"tools"`
	TookMS  int64     `json:"took_ms"`
	At      time.Time `json:"at,omitzero"` // when it was reported; set by who takes the report
}

// A Listing is all workers, and what is wrong with the definitions as they are now: workers that run go on all the same.
type Listing struct {
	Workers []Worker `json:"workers"`
	Problem string   `json:"problem,omitempty"`
}

// A LogPage is a piece of a worker's log.
type LogPage struct {
	Data []byte `json:"data"`
	Next int64  `json:"next"` // where to go on
	Gap  bool   `json:"gap,omitempty"`
}
