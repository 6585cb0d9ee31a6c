// Package jail owns a tenant's sandbox and what it stands on: its storage, its pile and the kernel object that holds it.
// On FreeBSD that object is a jail(2); on Linux it is a holder process that keeps the tenant's user, mount, network, ipc
// and uts namespaces. One Manager serves a host; every caller goes through it, so that opening, starting and closing one
// tenant's sandbox are serialised.
package jail

import (
	"time"

	"playground/racct"
)

// A Network says what a sandbox can reach.
type Network string

// The networks. Host is Linux only; Inherit, Address and VNET are FreeBSD only.
const (
	NetworkNone    Network = "none"
	NetworkHost    Network = "host"
	NetworkInherit Network = "inherit"
	NetworkAddress Network = "address"
	NetworkVNET    Network = "vnet"
)

// An Isolation says what separates a tenant from the host.
type Isolation string

// The isolations. IsolationNone is for demonstrations only and is always said aloud.
const (
	IsolationJail       Isolation = "jail"       // FreeBSD jail(2)
	IsolationNamespaces Isolation = "namespaces" // Linux namespaces, seccomp, no capabilities
	IsolationNone       Isolation = "none"       // nothing: commands run as the daemon's user
)

// AppendOnly is whether the kernel keeps a tenant's pile from being rewritten, as probed.
type AppendOnly struct {
	Enforced bool   `json:"enforced"`
	Reason   string `json:"reason"` // how, or why not
}

// A ProvisionSpec asks for a new tenant's sandbox.
type ProvisionSpec struct {
	Tenant  string  `json:"tenant"`
	Persona string  `json:"persona,omitempty"` // default "NAME assistant"
	Network Network `json:"network,omitempty"` // default from the host's configuration
	// Source makes a sandbox for one build: see builder.go. For operators only.
	Source string `json:"source,omitempty"`
}

// OpenOptions hold for the tenant's session until another open names them.
type OpenOptions struct {
	Cwd string            `json:"cwd,omitempty"`
	Env map[string]string `json:"env,omitzero"`
}

// A Sandbox describes one tenant's sandbox. It holds no host path.
type Sandbox struct {
	Tenant     string     `json:"tenant"`
	ID         string     `json:"id"`   // ULID: never reused, names storage and pile
	Name       string     `json:"name"` // "<prefix>-<tenant>": the session id and, on FreeBSD, the jail's name
	Persona    string     `json:"persona"`
	Network    Network    `json:"network"`
	Address    string     `json:"address,omitempty"` // the tenant's own, with network "address"
	Isolation  Isolation  `json:"isolation"`
	AppendOnly AppendOnly `json:"append_only"`
	Created    time.Time  `json:"created"`
	Attached   bool       `json:"attached"` // the kernel object exists
	Handles    int        `json:"handles"`  // open sessions not yet closed
}

// An Attachment is what is needed to run a command in an open sandbox. It goes to the process that runs things (reaperd)
// and to nobody else.
type Attachment struct {
	Sandbox    Sandbox `json:"sandbox"`
	Generation uint64  `json:"generation"` // changes when the kernel object was made anew
	// Root is the host path of the sandbox's root where a job needs it: a FreeBSD leaf jail is made with it.
	Root   string       `json:"root,omitempty"`
	Env    []string     `json:"env"` // HOME, USER, PATH, LANG, PILE, TRIBLESPACE_KEY, PERSONA, then the session's
	Cwd    string       `json:"cwd"` // the session's working directory inside the sandbox
	Limits racct.Limits `json:"limits"`
}
