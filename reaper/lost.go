package reaper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"playground/job"
)

// A LostFile keeps the record of a lost proof in a file, so that a restart cannot forget it. It implements job.LostStore.
type LostFile string

// Load returns the record, nil if there is none.
func (path LostFile) Load() (*job.Lost, error) {
	data, err := os.ReadFile(string(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lost job.Lost
	if err := json.Unmarshal(data, &lost); err != nil {
		return nil, fmt.Errorf("cannot parse %s: %w", string(path), err)
	}
	return &lost, nil
}

// Save replaces the record, or removes it for nil, and returns when that is on disk.
func (path LostFile) Save(lost *job.Lost) error {
	if lost == nil {
		if err := os.Remove(string(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return path.syncDir()
	}
	data, err := json.MarshalIndent(lost, "", "  ")
	if err != nil {
		return err
	}
	temp := string(path) + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, string(path)); err != nil {
		return err
	}
	return path.syncDir()
}

func (path LostFile) syncDir() error {
	d, err := os.Open(filepath.Dir(string(path)))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
