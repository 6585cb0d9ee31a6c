package jail

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Where a worker's jail has its root, and what its host is called. The folder is of every FreeBSD, root's and immutable.
const (
	workerRoot = "/var/empty"
	workerHost = "worker"
)

// workerInfix follows the prefix in the names of workers' jails, in place of the "-" of tenants'.
const workerInfix = "w-"

// NewWorkerName returns a name for the jail of a work-loop worker. It is never used again: limits are keyed by name, and a dying
// jail still counts under its own.
func NewWorkerName(prefix string) string {
	return prefix + workerInfix + strings.ToLower(ulid.MustNew(ulid.Now(), rand.Reader).String())
}

// WorkerMade reports whether a name is that of a worker's jail with this prefix, and when it was made by the clock of the host as
// it was then.
func WorkerMade(prefix, name string) (time.Time, bool) {
	id, ok := strings.CutPrefix(name, prefix+workerInfix)
	if !ok || prefix == "" || id != strings.ToLower(id) {
		return time.Time{}, false
	}
	made, err := ulid.ParseStrict(id)
	if err != nil {
		return time.Time{}, false
	}
	return ulid.Time(made.Time()), true
}

// workerParams are the parameters of a worker's jail: no network, no files, no System V IPC, no child jails. A uid 0 inside keeps
// its rights until DenyRoot, since the worker gives up root in there.
func workerParams(name string) ([]param, error) {
	if err := validJailPart(name); err != nil {
		return nil, err
	}
	list := required(
		stringPair("name", name),
		stringPair("path", workerRoot),
		stringPair("host.hostname", workerHost),
		flagPair("persist"),
		intPair("children.max", 0),
		intPair("enforce_statfs", 2),
		intPair("securelevel", jailSecurelevel),
		intPair("devfs_ruleset", 0),
		intPair("ip4", sysDisable), intPair("ip6", sysDisable),
	)
	for _, ability := range denied {
		list = append(list, param{flagPair(ability), true})
	}
	for _, ipc := range []string{"sysvmsg", "sysvsem", "sysvshm"} {
		list = append(list, param{intPair(ipc, sysDisable), true})
	}
	return list, nil
}
