package faculty

import (
	"context"
	"net"
	"strconv"
	"strings"

	"playground/fault"
	"playground/jail"
	"playground/job"
)

// stageScript puts its input into file $1 of folder $2, all or nothing, if it has $3 bytes. The folder is made anew when it is
// anything but a folder: the tenant can put what it likes in its place, and hurts itself alone, since this runs inside its
// sandbox.
const stageScript = `set -eu
umask 077
if [ -L "$2" ] || { [ -e "$2" ] && [ ! -d "$2" ]; }; then rm -f -- "$2"; fi
mkdir -p -- "$2"
chmod 0700 -- "$2"
new=$2/.new.$$
trap 'rm -f -- "$new"' EXIT
rm -rf -- "$new"
cat >"$new"
[ "$(wc -c <"$new")" -eq "$3" ]
chmod 0400 -- "$new"
if [ -L "$1" ] || [ -d "$1" ]; then rm -rf -- "$1"; fi
mv -f -- "$new" "$1"
`

// stage writes the worker's token into the tenant's sandbox.
func stage(ctx context.Context, r Reaper, d Definition, isolation jail.Isolation, token []byte) error {
	const keep = 2 << 10
	spec := job.Spec{
		Tenant: d.Tenant, Mode: job.Clean, Cwd: "/", Command: []byte(stageScript), Stdin: token,
		Args: [][]byte{[]byte(d.tokenPath(isolation)), []byte(tokenDir(isolation)), strconv.AppendInt(nil, int64(len(token)), 10)},
	}
	done, err := r.Exec(ctx, spec, 0, keep)
	if err != nil {
		return err
	}
	if done.Outcome == job.Exited && done.ExitCode != nil && *done.ExitCode == 0 {
		return nil
	}
	said := strings.TrimSpace(tidy(string(done.Stderr.Head)+string(done.Stderr.Tail), maxProblem))
	if said == "" {
		said = Exit{Result: done.Result}.String()
	}
	return fault.New(fault.Unavailable, "cannot stage the token of worker %q in its sandbox: %s", d.ID(), said)
}

// unstage takes the token away again. A sandbox that is gone has none.
func unstage(ctx context.Context, r Reaper, d Definition) {
	spec := job.Spec{Tenant: d.Tenant, Mode: job.Clean, Cwd: "/", Command: []byte(`rm -f -- "$@"`)}
	for _, isolation := range []jail.Isolation{jail.IsolationJail, jail.IsolationNamespaces} {
		spec.Args = append(spec.Args, []byte(d.tokenPath(isolation)))
	}
	_, _ = r.Exec(ctx, spec, 0, 1<<10) // it is overwritten at the next start
}

// place refuses a worker that its sandbox could not hold, or whose address nobody could reach there.
func place(d Definition, s jail.Sandbox) error {
	switch {
	case s.Isolation == jail.IsolationNone:
		return fault.New(fault.Unsupported, "faculty workers need sandboxes, and sandbox.isolation is %q", s.Isolation)
	case s.Isolation != jail.IsolationJail:
		return nil // a network namespace has a loopback of its own, which is reached through the sandbox's holder
	case s.Network == jail.NetworkAddress && s.Address != d.Address.Addr().String():
		return fault.New(fault.Invalid, "worker %q is to listen at %s, but the address of its tenant is %s", d.ID(), d.Address.Addr(), s.Address).
			WithHint("write %s in the definitions, and in the gateway's manifest", net.JoinHostPort(s.Address, strconv.Itoa(int(d.Address.Port()))))
	case s.Network == jail.NetworkNone, s.Network == jail.NetworkVNET:
		return fault.New(fault.Unsupported, "worker %q could not be reached: the network of its tenant is %q", d.ID(), s.Network).
			WithHint("make the tenant with network address or inherit")
	}
	return nil
}
