package jail

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/tenancy"
)

// uidRange is the number of host uids a tenant has where the daemon is root.
const uidRange = 65536

// A store keeps sandboxes on disk:
//
//	sandboxes/ULID/{sandbox.json,home,workspace,tmp,root}   a tenant's storage; gone with the tenant
//	piles/ULID/{self.pile,self.key}                         outlives it
//	shared/shared.pile                                      one per host
//
// A folder appears and disappears by rename, so that a crash leaves no half-made tenant; leftovers of either are removed at
// the next start.
type store struct {
	dir      string
	uidBase  uint32 // first host uid of mapped tenants; 0 where tenants share the daemon's uid
	pileSeed string // file that new piles start with; "" = empty

	backing backing // nil where the platform builds roots by itself
	storage Storage // the kind of backing
	failed  []error // of removing leftovers, where that needs the kernel's consent
}

// A record is what sandbox.json holds.
type record struct {
	Tenant  string    `json:"tenant"`
	ID      string    `json:"id"`
	Persona string    `json:"persona"`
	Network Network   `json:"network"`
	Created time.Time `json:"created"`
	// UIDBase is the first host uid of the tenant's range, 0 where it runs as the daemon's user.
	UIDBase uint32 `json:"uid_base,omitempty"`
	// FreeBSD: Address is the tenant's own with network "address"; Storage and Template are what its root stands on.
	Address  netip.Addr `json:"address,omitzero"`
	Storage  Storage    `json:"storage,omitempty"`
	Template string     `json:"template,omitempty"`
	Source   string     `json:"source,omitempty"` // of a builder: see builder.go
}

// sharedGID is the host's group of what tenants with uids of their own share: the one below their first range.
func sharedGID(uidBase uint32) int { return int(uidBase) - 1 }

// Prefixes of folders that are not a sandbox yet, or not any more.
const (
	makingPrefix = ".making-"
	gonePrefix   = ".gone-"
)

func (s *store) sandboxes() string           { return filepath.Join(s.dir, "sandboxes") }
func (s *store) path(id, name string) string { return filepath.Join(s.dir, "sandboxes", id, name) }
func (s *store) pile(id string) string       { return filepath.Join(s.dir, "piles", id) }
func (s *store) shared() string              { return filepath.Join(s.dir, "shared") }

// open makes the folders, removes leftovers, and returns what is there.
func (s *store) open() ([]record, error) {
	// Search permission for others where tenants have uids of their own: they reach their storage by path. The folders'
	// names are no secret and their contents are 0700.
	mode := fs.FileMode(0o700)
	if s.uidBase != 0 {
		mode = 0o711
	}
	for _, dir := range []string{s.dir, s.sandboxes(), filepath.Join(s.dir, "piles")} {
		mode := mode
		if dir == s.dir && os.Geteuid() == 0 {
			mode = 0o711 // playgroundd, an ordinary user then, passes to its own folder
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return nil, fmt.Errorf("cannot make state folder: %w", err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			return nil, fmt.Errorf("cannot set mode of state folder: %w", err)
		}
	}
	if err := s.seedShared(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.sandboxes())
	if err != nil {
		return nil, err
	}
	var records []record
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), makingPrefix) || strings.HasPrefix(e.Name(), gonePrefix) {
			if err := s.discard(context.Background(), e.Name()); err != nil {
				err = fmt.Errorf("cannot remove leftover %q: %w", e.Name(), err)
				s.failed = append(s.failed, err) // it must not keep everybody's sandbox away
			}
			continue
		}
		rec, err := s.load(e.Name())
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, nil
}

func (s *store) load(id string) (record, error) {
	var rec record
	data, err := os.ReadFile(s.path(id, "sandbox.json"))
	if err != nil {
		return rec, fmt.Errorf("cannot read sandbox %q: %w", id, err)
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("cannot parse sandbox %q: %w", id, err)
	}
	if rec.ID != id || tenancy.ValidName(rec.Tenant) != nil {
		return rec, fmt.Errorf("cannot use sandbox %q: its sandbox.json is another's", id)
	}
	return rec, nil
}

// create makes a tenant's storage and pile, all or nothing. What the tenant is granted is in rec; the rest of it is made here.
func (s *store) create(ctx context.Context, rec record) (record, error) {
	rec.ID = strings.ToLower(ulid.Make().String())
	rec.Created = time.Now().UTC().Truncate(time.Millisecond)
	if err := s.createPile(rec); err != nil {
		return rec, errors.Join(err, s.removePile(rec.ID))
	}
	making := filepath.Join(s.sandboxes(), makingPrefix+rec.ID)
	err := s.fill(making, rec)
	if err == nil && s.backing != nil {
		err = s.backing.create(ctx, making, rec)
	}
	if err == nil {
		if rec.Source == "" { // a builder's is removed with it
			// Last of all: from securelevel 1 on what bears the flag cannot be cleared up. Probed, not assumed: see appendOnly.
			setAppendOnly(filepath.Join(s.pile(rec.ID), "self.pile"), true)
		}
		err = os.Rename(making, filepath.Join(s.sandboxes(), rec.ID))
	}
	if err == nil {
		err = syncDir(s.sandboxes())
	}
	if err != nil {
		// Whatever ended it, clearing up must happen.
		ctx = context.WithoutCancel(ctx)
		return rec, errors.Join(full(err), s.discard(ctx, makingPrefix+rec.ID), s.discard(ctx, rec.ID), s.removePile(rec.ID))
	}
	return rec, nil
}

// discard removes a sandbox's folder, which need not be complete or exist, and what is outside of it.
func (s *store) discard(ctx context.Context, name string) error {
	dir := filepath.Join(s.sandboxes(), name)
	if s.backing != nil {
		id := strings.TrimPrefix(strings.TrimPrefix(name, makingPrefix), gonePrefix)
		if err := s.backing.release(ctx, id); err != nil {
			return err
		}
		if err := s.backing.destroy(ctx, id); err != nil {
			return err
		}
		if err := s.unmounted(filepath.Join(s.sandboxes(), id)); err != nil {
			return err
		}
	}
	return removeTree(dir)
}

// unmounted refuses to go on while anything is mounted below dir: removing dir would empty it.
func (s *store) unmounted(dir string) error {
	table, err := hostMounts()
	if err != nil {
		return err
	}
	for _, m := range below(table, dir) {
		return fault.New(fault.Busy, "%s is mounted on %q", m.from, m.on).WithHint("umount %s", m.on)
	}
	return nil
}

func (s *store) fill(dir string, rec record) error {
	if err := mkdir(dir, 0o700, rec.UIDBase); err != nil {
		return err
	}
	for name, mode := range map[string]fs.FileMode{"home": 0o700, "workspace": 0o755, "tmp": 0o777 | fs.ModeSticky, "root": 0o755} {
		path := filepath.Join(dir, name)
		if err := mkdir(path, mode, rec.UIDBase); err != nil {
			return err
		}
	}
	if rec.Source != "" {
		if err := mkdir(filepath.Join(dir, "workspace", filepath.Base(SourcePath)), 0o755, rec.UIDBase); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(dir, "sandbox.json"), append(data, '\n'), 0o600)
}

// remove takes a tenant's storage away; its pile stays, but for a builder's.
func (s *store) remove(ctx context.Context, rec record) error {
	if err := s.backed(rec); err != nil {
		return err
	}
	if s.backing != nil { // before the rename: what is refused then leaves the sandbox as it was
		if err := s.backing.release(ctx, rec.ID); err != nil {
			return err
		}
		if err := s.backing.destroy(ctx, rec.ID); err != nil {
			return err
		}
	}
	if err := os.Rename(s.path(rec.ID, ""), s.path(gonePrefix+rec.ID, "")); err != nil {
		return err
	}
	if err := s.discard(ctx, gonePrefix+rec.ID); err != nil || rec.Source == "" {
		return err
	}
	return s.removePile(rec.ID)
}

// createPile makes a tenant's pile from the seed, and its key. The pile is not append-only yet.
func (s *store) createPile(rec record) error {
	dir := s.pile(rec.ID)
	if err := mkdir(dir, 0o700, rec.UIDBase); err != nil {
		return err
	}
	if err := s.seed(filepath.Join(dir, "self.pile"), 0o600); err != nil {
		return err
	}
	var key [32]byte
	rand.Read(key[:])
	if err := writeSynced(filepath.Join(dir, "self.key"), []byte(hex.EncodeToString(key[:])+"\n"), 0o400); err != nil {
		return full(err)
	}
	for _, name := range []string{"self.pile", "self.key"} {
		if err := own(filepath.Join(dir, name), rec.UIDBase); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// removePile undoes createPile, for a tenant that never came to be.
func (s *store) removePile(id string) error {
	setAppendOnly(filepath.Join(s.pile(id), "self.pile"), false)
	return os.RemoveAll(s.pile(id))
}

func (s *store) seedShared() error {
	if err := os.MkdirAll(s.shared(), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o700)
	if s.uidBase != 0 { // for the group that all tenants' mapped users have, and for nobody else of the host
		if err := os.Chown(s.shared(), -1, sharedGID(s.uidBase)); err != nil {
			return err
		}
		mode = 0o710
	}
	if err := os.Chmod(s.shared(), mode); err != nil {
		return err
	}
	path := filepath.Join(s.shared(), "shared.pile")
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := s.seed(path, 0o666); err != nil { // every tenant appends to it
		return err
	}
	setAppendOnly(path, true)
	return nil
}

func (s *store) seed(path string, mode fs.FileMode) error {
	var data []byte
	if s.pileSeed != "" {
		var err error
		if data, err = os.ReadFile(s.pileSeed); err != nil {
			return fault.Wrap(fault.Invalid, err, "cannot read the pile's seed file").WithHint("set sandbox.pile_seed to a readable file, or to \"\"")
		}
	}
	return full(writeSynced(path, data, mode))
}

// full names the usual cause of a failed write.
func full(err error) error {
	if isNoSpace(err) {
		return fault.Wrap(fault.Unavailable, err, "the disk that holds the state folder is full").WithHint("free some space and try again; nothing was kept of this attempt")
	}
	return err
}

// mkdir makes a folder of the tenant's with exactly mode, whatever the umask. Where tenants have uids of their own, a folder
// with 0700 is closed to every other user of the host, and the tenant's holder still passes.
func mkdir(path string, mode fs.FileMode, uidBase uint32) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if err := own(path, uidBase); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

func own(path string, uidBase uint32) error {
	if uidBase == 0 {
		return nil
	}
	return os.Chown(path, int(uidBase), int(uidBase))
}

// writeSynced creates a file that must not exist, with exactly mode, and syncs it.
func writeSynced(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// appendOnly reports whether the kernel refuses to rewrite the file at path, by asking for what it must refuse.
func appendOnly(path string) AppendOnly {
	// Without O_APPEND. A tenant whose pile is not protected may have put a pipe there, which must not be waited for, or a link.
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err == nil {
		f.Close()
		return AppendOnly{Reason: notAppendOnlyReason}
	}
	if errors.Is(err, fs.ErrPermission) && hasAppendFlag(path) {
		return judgeAppendOnly(path)
	}
	return AppendOnly{Reason: "not known: the pile cannot be probed"}
}

// RemoveState removes a whole state folder with every tenant in it, append-only piles included. It is for folders that were
// made to be thrown away; no daemon may be using it.
func RemoveState(dir string) error {
	s := store{dir: dir}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		if err := s.unmounted(real); err != nil {
			return err
		}
	}
	piles, _ := filepath.Glob(filepath.Join(dir, "piles", "*", "self.pile"))
	for _, path := range append(piles, filepath.Join(s.shared(), "shared.pile")) {
		setAppendOnly(path, false)
	}
	return removeTree(dir)
}
