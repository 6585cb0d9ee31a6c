package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"playground/fault"
	"playground/jail"
	"playground/job"
)

// Sandboxes is the owner of sandboxes (jaild).
type Sandboxes interface {
	List(ctx context.Context) ([]jail.Sandbox, error)
	Provision(ctx context.Context, spec jail.ProvisionSpec) (jail.Sandbox, error)
	Destroy(ctx context.Context, tenant string) error
	Open(ctx context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error)
	Close(ctx context.Context, tenant string) (jail.Sandbox, error)
}

// Jobs is the owner of everything that runs (reaperd).
type Jobs interface {
	Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error)
	Start(ctx context.Context, spec job.Spec) (job.Status, error)
	Poll(ctx context.Context, tenant, id string, cursor int64, wait time.Duration) (job.Page, error)
	DropTenant(ctx context.Context, tenant string) error
}

// A Host is the daemons that a build and an installation go through.
type Host struct {
	Sandboxes Sandboxes
	Jobs      Jobs
	Open      jail.Network // what a build may reach that is allowed to use the network
	ChunkSize int          // bytes of a file that one command takes or gives
}

// cleanUpTime bounds the removal of a builder, which goes on although the caller may have left.
const cleanUpTime = time.Minute

// A builder is a sandbox for one build. Its name and lock lie in the store's folder .builders, so that what a killed build left can be told
// from what is in use.
type builder struct {
	host   Host
	tenant string
	source string // host path of what it sees
	lock   *os.File
}

// builderPrefix begins the names of builders; a ULID follows.
const builderPrefix = "build-"

// IsBuilder reports whether a tenant's name is that of a builder: its sandbox belongs to a build that goes on, or that was killed and is
// cleared away by the next one.
func IsBuilder(tenant string) bool {
	id, ok := strings.CutPrefix(tenant, builderPrefix)
	_, err := ulid.ParseStrict(id)
	return ok && err == nil
}

func (s *Store) builders() string { return filepath.Join(s.dir, ".builders") }

// newBuilder makes the place for a source, empty. The sandbox is made by start, when the source is there.
func (s *Store) newBuilder(host Host) (*builder, error) {
	if err := os.MkdirAll(s.builders(), 0o700); err != nil {
		return nil, err
	}
	id := strings.ToLower(ulid.Make().String())
	b := &builder{host: host, tenant: builderPrefix + id, source: filepath.Join(s.sources, id)}
	var err error
	b.lock, err = flock(filepath.Join(s.builders(), b.tenant))
	if errors.Is(err, errLocked) { // another build's sweep came between the making and the locking
		return s.newBuilder(host)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(b.source, 0o700); err != nil {
		return nil, errors.Join(err, b.end(context.Background()))
	}
	return b, nil
}

func (b *builder) start(ctx context.Context, network bool) error {
	spec := jail.ProvisionSpec{Tenant: b.tenant, Persona: "builder", Network: jail.NetworkNone, Source: filepath.Base(b.source)}
	if network {
		spec.Network = b.host.Open
	}
	if err := os.Chmod(b.source, 0o755); err != nil { // complete only now
		return err
	}
	if _, err := b.host.Sandboxes.Provision(ctx, spec); err != nil {
		return err
	}
	_, err := b.host.Sandboxes.Open(ctx, b.tenant, jail.OpenOptions{Cwd: "/workspace"})
	return err
}

// run runs the build and writes its output to log as it comes.
func (b *builder) run(ctx context.Context, s *Spec, log io.Writer) error {
	started, err := b.host.Jobs.Start(ctx, job.Spec{
		Tenant: b.tenant, Mode: job.Clean, Command: s.script(), Args: s.args(), Cwd: "/workspace", Timeout: s.Timeout,
	})
	if err != nil {
		return err
	}
	const wait = 10 * time.Second
	for cursor := int64(0); ; {
		page, err := b.host.Jobs.Poll(ctx, b.tenant, started.JobID, cursor, wait)
		if err != nil {
			return err
		}
		if page.Gap {
			fmt.Fprintf(log, "\n[some output came too fast to be kept: %d bytes so far]\n", page.DroppedBytes)
		}
		for _, c := range page.Chunks {
			if _, err := log.Write(c.Data); err != nil {
				return fault.Wrap(fault.Unavailable, err, "cannot write the build's log")
			}
		}
		cursor = page.NextCursor
		if page.Result != nil {
			return verdict(page.Result)
		}
	}
}

// errBuild is the cause when the build itself ended otherwise than it should.
var errBuild = errors.New("the build failed")

// verdict turns the end of a build into an error, or nil.
func verdict(r *job.Result) error {
	what := string(r.Outcome)
	switch {
	case r.Outcome == job.Exited && *r.ExitCode == 0:
		return nil
	case r.Outcome == job.Exited:
		what = "exit status " + strconv.Itoa(*r.ExitCode)
	case r.Outcome == job.Signalled:
		what = r.Signal
	case r.Outcome == job.TimedOut:
		what = "no end in time"
	}
	for _, hint := range r.Hints {
		what += "; " + hint
	}
	return fault.Hide(fault.Invalid, errBuild, "the build failed: %s", what)
}

// sizes are those of the executables in the sandbox. Nothing is taken out of it before all are known to be there and to fit.
func (b *builder) sizes(ctx context.Context, names []string) (map[string]int64, error) {
	const size = `f=/workspace/out/$1; [ -f "$f" ] && [ ! -L "$f" ] && [ -x "$f" ] || exit 3; exec wc -c <"$f"`
	sizes, total := map[string]int64{}, int64(0)
	for _, name := range names {
		done, err := b.exec(ctx, size, nil, 64, name)
		if err != nil {
			return nil, err
		}
		if *done.ExitCode != 0 {
			return nil, fault.New(fault.Invalid, "the build made no executable %q", name).WithHint("it must leave that in $OUT, as a plain file; --binary NAME asks for another")
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(done.Stdout.Head)), 10, 64)
		if err != nil || n <= 0 {
			return nil, fault.New(fault.Invalid, "the build made an empty executable %q", name)
		}
		if n > maxBinaryBytes {
			return nil, fault.New(fault.TooLarge, "executable %q is larger than %d MiB", name, maxBinaryBytes>>20)
		}
		sizes[name] = n
		total += n
	}
	if total > maxCohortBytes {
		return nil, fault.New(fault.TooLarge, "the %d executables have %d MiB together, over the limit of %d MiB", len(names), total>>20, maxCohortBytes>>20).
			WithHint("build some of them as a bundle of another name: --name NAME --binary NAME")
	}
	return sizes, nil
}

// take copies one executable out of the sandbox, in pieces, to a file that must not exist.
func (b *builder) take(ctx context.Context, name string, total int64, to string) (err error) {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Chmod(0o555), f.Sync(), f.Close()) }()
	const piece = `exec dd if="/workspace/out/$1" bs="$2" skip="$3" count=1 2>/dev/null`
	for offset, n := int64(0), 0; offset < total; n++ {
		done, err := b.exec(ctx, piece, nil, b.host.ChunkSize, name, strconv.Itoa(b.host.ChunkSize), strconv.Itoa(n))
		if err != nil {
			return err
		}
		want := min(total-offset, int64(b.host.ChunkSize))
		if *done.ExitCode != 0 || int64(len(done.Stdout.Head)) != want {
			return fault.New(fault.Unavailable, "cannot take executable %q out of the sandbox: %d bytes instead of %d", name, len(done.Stdout.Head), want)
		}
		if _, err := f.Write(done.Stdout.Head); err != nil {
			return err
		}
		offset += want
	}
	return nil
}

// exec runs a clean script in the builder's sandbox; see execIn.
func (b *builder) exec(ctx context.Context, script string, stdin []byte, keep int, args ...string) (job.Execution, error) {
	return b.host.execIn(ctx, b.tenant, script, stdin, keep, args...)
}

// execIn runs a script with arguments in a tenant's sandbox to an exit status, and keeps the first bytes of its output.
func (h Host) execIn(ctx context.Context, tenant, script string, stdin []byte, keep int, args ...string) (job.Execution, error) {
	spec := job.Spec{Tenant: tenant, Mode: job.Clean, Command: []byte(script), Stdin: stdin, Timeout: time.Minute}
	for _, arg := range args {
		spec.Args = append(spec.Args, []byte(arg))
	}
	done, err := h.Jobs.Exec(ctx, spec, keep, 1024) // the tail keeps a chatty command from being ended
	if err != nil {
		return done, err
	}
	if done.Outcome != job.Exited || done.ExitCode == nil {
		return done, fault.New(fault.Unavailable, "a command in the sandbox of %q ended as %s %s", tenant, done.Outcome, done.Error)
	}
	return done, nil
}

// end throws the builder away, whatever became of it.
func (b *builder) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	err := removeBuilder(ctx, b.host, b.tenant, b.source)
	if err == nil {
		err = os.Remove(b.lock.Name())
	}
	_ = b.lock.Close() // closing gives the lock back whatever close(2) says
	return err
}

func removeBuilder(ctx context.Context, host Host, tenant, source string) error {
	gone := func(err error) error {
		if errors.Is(err, fault.NotFound) || errors.Is(err, fault.NotOpen) {
			return nil
		}
		return err
	}
	if err := gone(host.Jobs.DropTenant(ctx, tenant)); err != nil {
		return err
	}
	if err := gone(host.Sandboxes.Destroy(ctx, tenant)); err != nil {
		return err
	}
	return os.RemoveAll(source)
}

// sweep throws away what killed builds have left.
func (s *Store) sweep(ctx context.Context, host Host) error {
	entries, err := os.ReadDir(s.builders())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		if !IsBuilder(e.Name()) {
			continue
		}
		lock, err := flock(filepath.Join(s.builders(), e.Name()))
		if errors.Is(err, errLocked) { // it goes on, or ends just now
			continue
		}
		if err == nil {
			left := &builder{host: host, tenant: e.Name(), source: filepath.Join(s.sources, strings.TrimPrefix(e.Name(), builderPrefix)), lock: lock}
			err = left.end(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, err)...)
}
