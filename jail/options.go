package jail

import (
	"net/netip"
	"os"
	"time"

	"playground/racct"
)

// Options configure a Manager.
type Options struct {
	Prefix    string // of sandbox names
	StateDir  string
	Supervise string // path of the playground-supervise program
	Isolation Isolation
	Network   Network       // of tenants that name none
	HandleTTL time.Duration // a session unused this long is abandoned
	UIDBase   uint32        // first host uid of tenants' ranges, where the daemon is root; 0 = tenants share its uid
	PileSeed  string
	Lang      string
	Path      string
	Limits    racct.Limits
	Warm      int // inits kept ready per sandbox in use
	Log       *os.File

	// The rest is FreeBSD's. Zero values mean dir, DefaultTemplate, no quota, a devfs ruleset of our own, /tmp in the tenant's
	// storage, and DefaultAddresses.
	Storage      Storage
	Dataset      string // with zfs: below which ours are made
	Template     string // what new sandboxes are made from
	Quota        int64  // with zfs: bytes a sandbox may hold
	DevfsRuleset int
	TmpBytes     int64 // size of a tmpfs on /tmp
	Addresses    netip.Prefix
}
