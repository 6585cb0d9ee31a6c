package jail

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"playground/fault"
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
}

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
	for _, dir := range []string{s.dir, s.sandboxes(), filepath.Join(s.dir, "piles"), s.shared()} {
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
			if err := removeTree(filepath.Join(s.sandboxes(), e.Name())); err != nil {
				return nil, fmt.Errorf("cannot remove leftover %q: %w", e.Name(), err)
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
	if rec.ID != id || ValidName(rec.Tenant) != nil {
		return rec, fmt.Errorf("cannot use sandbox %q: its sandbox.json is another's", id)
	}
	return rec, nil
}

// create makes a tenant's storage and pile, all or nothing.
func (s *store) create(spec ProvisionSpec, uidBase uint32) (record, error) {
	rec := record{
		Tenant: spec.Tenant, ID: strings.ToLower(ulid.Make().String()), Persona: spec.Persona, Network: spec.Network,
		Created: time.Now().UTC().Truncate(time.Millisecond), UIDBase: uidBase,
	}
	if err := s.createPile(rec); err != nil {
		return rec, errors.Join(err, s.removePile(rec.ID))
	}
	making := filepath.Join(s.sandboxes(), makingPrefix+rec.ID)
	err := s.fill(making, rec)
	if err == nil {
		err = os.Rename(making, filepath.Join(s.sandboxes(), rec.ID))
	}
	if err == nil {
		err = syncDir(s.sandboxes())
	}
	if err != nil {
		return rec, errors.Join(full(err), removeTree(making), removeTree(filepath.Join(s.sandboxes(), rec.ID)), s.removePile(rec.ID))
	}
	return rec, nil
}

func (s *store) fill(dir string, rec record) error {
	mode := fs.FileMode(0o700)
	if rec.UIDBase != 0 {
		mode = 0o711
	}
	if err := mkdir(dir, mode); err != nil {
		return err
	}
	for name, mode := range map[string]fs.FileMode{"home": 0o700, "workspace": 0o755, "tmp": 0o777 | fs.ModeSticky, "root": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := own(path, rec.UIDBase); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(dir, "sandbox.json"), append(data, '\n'), 0o600)
}

// remove takes a tenant's storage away; its pile stays.
func (s *store) remove(id string) error {
	gone := filepath.Join(s.sandboxes(), gonePrefix+id)
	if err := os.Rename(filepath.Join(s.sandboxes(), id), gone); err != nil {
		return err
	}
	return removeTree(gone)
}

// createPile makes a tenant's pile from the seed, and its key.
func (s *store) createPile(rec record) error {
	dir := s.pile(rec.ID)
	mode := fs.FileMode(0o700)
	if rec.UIDBase != 0 {
		mode = 0o711
	}
	if err := mkdir(dir, mode); err != nil {
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
	setAppendOnly(filepath.Join(dir, "self.pile"), true) // probed, not assumed: see appendOnly
	return syncDir(dir)
}

// removePile undoes createPile, for a tenant that never came to be.
func (s *store) removePile(id string) error {
	setAppendOnly(filepath.Join(s.pile(id), "self.pile"), false)
	return os.RemoveAll(s.pile(id))
}

func (s *store) seedShared() error {
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

// mkdir makes a folder with exactly mode, whatever the umask.
func mkdir(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, 0o700); err != nil {
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

// removeTree removes a folder in which a tenant did as it liked: folders without permissions are opened up first. Links are
// never followed.
func removeTree(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700) // nothing of the tenant runs, so the folder cannot become a link now
		}
		return nil
	})
	return os.RemoveAll(path)
}

// appendOnly reports whether the kernel refuses to rewrite the file at path, by asking for what it must refuse.
func appendOnly(path string) AppendOnly {
	f, err := os.OpenFile(path, os.O_WRONLY, 0) // without O_APPEND
	if err == nil {
		f.Close()
		return AppendOnly{Reason: notAppendOnlyReason}
	}
	if errors.Is(err, fs.ErrPermission) && hasAppendFlag(path) {
		return AppendOnly{Enforced: true, Reason: appendOnlyReason}
	}
	return AppendOnly{Reason: "not known: the pile cannot be probed"}
}

// RemoveState removes a whole state folder with every tenant in it, append-only piles included. It is for folders that were
// made to be thrown away; no daemon may be using it.
func RemoveState(dir string) error {
	s := store{dir: dir}
	piles, _ := filepath.Glob(filepath.Join(dir, "piles", "*", "self.pile"))
	for _, path := range append(piles, filepath.Join(s.shared(), "shared.pile")) {
		setAppendOnly(path, false)
	}
	return removeTree(dir)
}
