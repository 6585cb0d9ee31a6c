// Package holder is the process that keeps a tenant's sandbox on Linux: its user, mount, network, ipc and uts namespaces, and
// a private root in them. It starts the inits of the tenant's jobs inside, because a multi-threaded program such as a Go
// daemon cannot enter a user namespace (setns(2)). It is lean, since every tenant in use has one.
package holder

import "playground/racct"

// A Config is the first message to a holder. Its paths are the host's; they are of no use once the root is built.
type Config struct {
	Isolated  bool         `json:"isolated"`
	Hostname  string       `json:"hostname"`
	Tenant    string       `json:"tenant"`
	Loopback  bool         `json:"loopback"`         // the network namespace is new: bring up lo
	Resolver  bool         `json:"resolver"`         // the network is the host's: take its resolv.conf
	Root      string       `json:"root"`             // an empty folder to build the private root on
	Home      string       `json:"home"`             // shown as /home/TENANT
	Workspace string       `json:"workspace"`        // shown as /workspace
	Source    string       `json:"source,omitempty"` // shown read-only at /workspace/src; "" = nothing
	Tmp       string       `json:"tmp"`
	Pile      string       `json:"pile"` // folder of self.pile and self.key
	Shared    string       `json:"shared"`
	Limits    racct.Limits `json:"limits"`
	Warm      int          `json:"warm"` // inits kept ready while the sandbox is in use
}

// SharedGID is the group, inside a sandbox whose tenant has ids of its own, of what all tenants share.
const SharedGID = 65535

// The operations of a Request.
const (
	OpConnect = "connect" // comes with one descriptor: a connection on which jobs are started
	OpDial    = "dial"    // comes with one descriptor: a connection on which one address to connect to will come
	OpStop    = "stop"    // end unless jobs run
)

// A Request is what jaild asks of a holder.
type Request struct {
	Op string `json:"op"`
}

// A Reply answers the configuration, a request or a start. The reply to a start carries the init's pidfd.
type Reply struct {
	Error string `json:"error,omitempty"`
	Busy  int    `json:"busy,omitempty"` // jobs that are running, for a refused stop
}

// An InitConfig is the first message to a job's init; the second, with one descriptor, is the job's connection.
type InitConfig struct {
	// Isolated: the init is process 1 of a new pid and mount namespace. Otherwise it only becomes a subreaper.
	Isolated bool         `json:"isolated"`
	Limits   racct.Limits `json:"limits"`
}

// Free is what an init says that is ready for another job.
const Free = "free"

// An InitReady is the init's answer to its configuration, once it is confined.
type InitReady struct {
	Error string `json:"error,omitempty"`
}
