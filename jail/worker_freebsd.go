package jail

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// jailUpdate makes jail_set(2) change a jail that there is.
const jailUpdate = 0x02

// CreateWorker makes the jail of a work-loop worker and returns its number.
func CreateWorker(name string) (jid int, err error) {
	params, err := workerParams(name)
	if err != nil {
		return 0, err
	}
	return freebsd{}.createJail(name, params)
}

// DenyRoot takes all rights from uid 0 in a worker's jail, where nobody has that any more, and returns what the jail is like.
func DenyRoot(jid int) (string, error) {
	if jid <= 0 {
		return "", fmt.Errorf("internal error: jail number %d", jid)
	}
	pairs := []pair{intPair("jid", int32(jid)), flagPair("allow.nosuser")}
	if _, err := vectorCall(unix.SYS_JAIL_SET, "update jail", strconv.Itoa(jid), pairs, jailUpdate); err != nil {
		return "", err
	}
	return workerSeen(jid)
}

// workerSeen reads a worker's jail back from the kernel.
func workerSeen(jid int) (string, error) {
	ints := []string{"ip4", "ip6", "children.max", "securelevel", "enforce_statfs", "allow.suser", "allow.raw_sockets", "allow.mount", "dying"}
	asked := []pair{intPair("jid", int32(jid)), {"path", make([]byte, maxJailPath)}, {"host.hostname", make([]byte, maxJailName)}}
	for _, name := range ints {
		asked = append(asked, pair{name, make([]byte, 4)})
	}
	if _, err := vectorCall(unix.SYS_JAIL_GET, "look up jail", strconv.Itoa(jid), asked, jailDying); err != nil {
		return "", err
	}
	if path, host := cString(asked[1].value), cString(asked[2].value); path != workerRoot || host != workerHost {
		return "", fmt.Errorf("its jail is at %q and called %q", path, host)
	}
	want := map[string]int{"securelevel": jailSecurelevel, "enforce_statfs": 2} // the others: 0
	for i, name := range ints {
		if got := intValue(asked[3+i]); got != want[name] {
			return "", fmt.Errorf("its jail has %s=%d, want %d", name, got, want[name])
		}
	}
	if empty, err := emptyFolder(workerRoot); err != nil || !empty {
		return "", errors.Join(fmt.Errorf("%s is not empty", workerRoot), err)
	}
	return fmt.Sprintf("jail %d at %s, no network", jid, workerRoot), nil
}

// emptyFolder reports whether a folder holds nothing.
func emptyFolder(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	return len(entries) == 0, err
}
