package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"playground/fault"
)

// A Pruned is a folder that was, or would be, removed.
type Pruned struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	Complete    bool   `json:"complete"`          // false: what a failed build left, with its log, or what is damaged
	Damaged     string `json:"damaged,omitempty"` // what is wrong with a build that was complete
}

// Prune removes the folders that nobody needs: those of failed builds, damaged ones, which nobody could install, and cohorts that
// are neither among the newest keep of their bundle nor a tenant's current or previous one. A build that goes on keeps its folder.
// The sandboxes of builds that were killed go too. With dry, nothing is removed.
func (s *Store) Prune(ctx context.Context, host Host, only string, keep int, dry bool) ([]Pruned, error) {
	if keep < 0 {
		return nil, fault.New(fault.Invalid, "cannot keep %d builds", keep).WithHint("--keep 0 keeps those alone that tenants have")
	}
	installed, err := s.Installations(ctx, host)
	if err != nil {
		return nil, err
	}
	newest, err := s.Cohorts(only)
	if err != nil {
		return nil, err
	}
	kept := map[string]int{}
	needed := func(name, fingerprint string) bool {
		return slices.ContainsFunc(installed, func(i Installation) bool {
			return i.Name == name && (i.Current == fingerprint || i.Previous == fingerprint)
		})
	}
	var going []Pruned
	complete := map[string]bool{}
	for _, c := range newest { // the newest of each bundle come first
		complete[c.Name+"/"+c.Fingerprint] = true
		if c.Damaged != "" {
			going = append(going, Pruned{c.Name, c.Fingerprint, false, c.Damaged})
			continue
		}
		if kept[c.Name]++; kept[c.Name] > keep && !needed(c.Name, c.Fingerprint) {
			going = append(going, Pruned{c.Name, c.Fingerprint, true, ""})
		}
	}
	err = s.each(only, func(name, fingerprint string) error {
		if !complete[name+"/"+fingerprint] {
			going = append(going, Pruned{name, fingerprint, false, ""})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	gone, err := s.drop(going, dry)
	if dry {
		return gone, err
	}
	// Without the daemons nothing of a killed build runs, and its sandbox waits for the next time.
	if left := s.sweep(ctx, host); !errors.Is(left, fault.Unavailable) {
		err = errors.Join(err, left)
	}
	return gone, err
}

// drop removes folders, each under its build's lock and the stamp first, so that one that is half removed is no cohort.
func (s *Store) drop(going []Pruned, dry bool) ([]Pruned, error) {
	var gone []Pruned
	for _, p := range going {
		lock, err := flock(filepath.Join(s.dir, p.Name, ".lock-"+p.Fingerprint))
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return gone, fault.Wrap(fault.Unavailable, err, "cannot remove a build of bundle %q", p.Name)
		}
		dir := s.path(p.Name, p.Fingerprint)
		if _, known := s.load(p.Name, p.Fingerprint); !p.Complete && known == nil { // it was built meanwhile
			_ = lock.Close()
			continue
		}
		if !dry {
			err = os.Remove(filepath.Join(dir, stampFile))
			if errors.Is(err, os.ErrNotExist) {
				err = nil
			}
			err = errors.Join(err, os.RemoveAll(dir), os.Remove(lock.Name()))
		}
		_ = lock.Close() // closing gives the lock back whatever close(2) says
		if err != nil {
			return gone, fault.Wrap(fault.Unavailable, err, "cannot remove a build of bundle %q", p.Name)
		}
		gone = append(gone, p)
	}
	return gone, nil
}
