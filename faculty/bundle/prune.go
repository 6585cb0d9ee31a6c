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
	Complete    bool   `json:"complete"` // false: what a failed build left, with its log
}

// Prune removes the folders that nobody needs: those of failed builds, and cohorts that are neither among the newest keep of their
// bundle nor a tenant's current or previous one. A build that goes on keeps its folder. With dry, nothing is removed.
func (s *Store) Prune(ctx context.Context, host Host, only string, keep int, dry bool) ([]Pruned, error) {
	if keep < 0 {
		return nil, fault.New(fault.Invalid, "cannot keep %d builds", keep)
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
		if kept[c.Name]++; kept[c.Name] > keep && !needed(c.Name, c.Fingerprint) {
			going = append(going, Pruned{c.Name, c.Fingerprint, true})
		}
	}
	err = s.each(only, func(name, fingerprint string) error {
		if !complete[name+"/"+fingerprint] {
			going = append(going, Pruned{name, fingerprint, false})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.drop(going, dry)
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
