// Package config reads the one TOML file of a host and gives validated values. Unknown keys are refused with their line;
// every value is checked against its range and the values it depends on, and all problems are told at once. The defaults
// stand in one function, etc/playground.toml.sample documents them, and a test holds the two together. Secrets are never
// in the file: it names files that SecretFile reads.
package config

import (
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/racct"
)

// A Config is a host's configuration, validated. It is a value: pass it by copy and do not change it or its slices.
type Config struct {
	Host    Host
	HTTP    HTTP
	Sandbox Sandbox
	Jobs    Jobs
	Faculty Faculty
	Gateway Gateway
	Work    Work
	Log     Log

	resources racct.Limits
}

// Host says where things are.
type Host struct {
	Prefix     string // of sandbox names: "<prefix>-<tenant>"
	StateDir   string // what must survive a reboot
	RunDir     string // sockets
	LibexecDir string // helper programs
	DaemonUser string // whom playgroundd runs as, when the root daemons run as root

	SecurelevelMin int // FreeBSD: below it playground-launch refuses to start playgroundd
}

// HTTP is the face to the network.
type HTTP struct {
	Listen            string
	AllowedHosts      []string
	AllowedOrigins    []string
	BodyBytes         int64
	SessionIdle       time.Duration
	SessionsPerTenant int
	MetricsListen     string // empty, or a loopback address
	Catalogue         Catalogue
}

// Sandbox is what every tenant's sandbox is like.
type Sandbox struct {
	Isolation jail.Isolation // resolved: never "auto"
	Network   jail.Network   // for tenants whose creation names none
	HandleTTL time.Duration  // after which an abandoned open_session handle expires
	UIDBase   uint32         // Linux, root: first host uid of the mapped ranges
	PileSeed  string         // empty, or an absolute path
	Lang      string
	Path      string

	// FreeBSD: what sandboxes stand on, and what a jail gets.
	Storage      jail.Storage
	Dataset      string // storage zfs: below which ours are made
	Template     string // what new sandboxes are made from
	Quota        int64  // storage zfs: bytes that a sandbox may hold; 0 = no bound
	DevfsRuleset int    // of a jail's /dev; 0 = the one that playground-jaild makes
	TmpBytes     int64  // size of a tmpfs on /tmp; 0 = /tmp is in the tenant's storage
	Addresses    netip.Prefix
}

// Jobs bounds commands. Limits is what package job enforces; the rest belongs to the layers around it.
type Jobs struct {
	Limits        job.Limits
	FileBytes     int           // one read or write
	TextBytes     int           // model-facing text of one result
	TermGrace     time.Duration // between SIGTERM and SIGKILL
	ProofDeadline time.Duration // after which clean-up counts as not proved
	Warm          int           // idle job inits kept per active tenant
}

// Log is how much the daemons say.
type Log struct {
	Level string // "debug", "info", "warn" or "error"
}

// Load reads and validates the file at path. Its errors are *fault.Error and name the file; a missing file also is
// fs.ErrNotExist.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fault.Wrap(fault.Invalid, err, "cannot load config").
			WithHint("copy playground.toml.sample to that path, or name another file with -c")
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	if err := trusted(f); err != nil {
		return Config{}, err
	}
	c, err := Parse(f)
	if err != nil {
		return Config{}, fault.Wrap(fault.Invalid, err, "cannot load config %q", path).WithHint("%s", fault.HintOf(err))
	}
	return c, nil
}

// trusted refuses a file that everybody may write: it names folders that root daemons create and remove.
func trusted(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot load config")
	}
	if !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "cannot load config %q: not a regular file", f.Name())
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fault.New(fault.Invalid, "cannot load config %q: anybody may write it", f.Name()).
			WithHint("chmod o-w %s", f.Name())
	}
	return nil
}

// Parse reads and validates a file's text for this platform.
func Parse(r io.Reader) (Config, error) { return parse(r, runtime.GOOS) }

func parse(r io.Reader, goos string) (Config, error) {
	v, at, err := decode(r)
	if err != nil {
		return Config{}, err
	}
	return v.validate(goos, at)
}

// JobLimits returns the bounds for package job.
func (c Config) JobLimits() job.Limits { return c.Jobs.Limits }

// Resources returns what one job may use, before scaling to the host's memory.
func (c Config) Resources() racct.Limits { return c.resources }

// The sockets' names in the run folder.
const (
	jailSocket     = "jaild.sock"
	reaperSocket   = "reaperd.sock"
	operatorSocket = "operator.sock"
)

// JailSocket is where playground-jaild listens.
func (c Config) JailSocket() string { return filepath.Join(c.Host.RunDir, jailSocket) }

// ReaperSocket is where playground-reaperd listens.
func (c Config) ReaperSocket() string { return filepath.Join(c.Host.RunDir, reaperSocket) }

// OperatorSocket is where playgroundd listens for the operator's command line.
func (c Config) OperatorSocket() string { return filepath.Join(c.Host.RunDir, operatorSocket) }

// TransportDir is the only folder that playgroundd writes: where the other daemons are root, the state folder is root's and
// this one belongs to the daemon user.
func (c Config) TransportDir() string { return filepath.Join(c.Host.StateDir, "playgroundd") }

// Database is the accounts' SQLite file.
func (c Config) Database() string { return filepath.Join(c.TransportDir(), "accounts.db") }
