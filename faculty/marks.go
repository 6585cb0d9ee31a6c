package faculty

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// marks are facts about workers that must outlive this process, each a file DIR/KIND/ID. An id holds no slash.
type marks string

const (
	markStopped = "stopped" // the operator stopped it
	markHandle  = "handles" // it holds a handle of this sandbox, named by the sandbox's own id
	logs        = "log"
)

// make makes the folders.
func (m marks) make() error {
	for _, kind := range []string{markStopped, markHandle, logs} {
		if err := os.MkdirAll(filepath.Join(string(m), kind), 0o700); err != nil {
			return err
		}
	}
	return nil
}

func (m marks) path(kind, id string) string { return filepath.Join(string(m), kind, id) }

// get returns a mark's text; false without the mark.
func (m marks) get(kind, id string) (string, bool) {
	text, err := os.ReadFile(m.path(kind, id))
	return string(text), err == nil
}

// set makes the mark, and returns when it would survive the host.
func (m marks) set(kind, id, text string) error {
	path := m.path(kind, id)
	temp := path + ".new" // no id ends like this: a name holds no dot
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return err
	}
	return m.sync(kind)
}

// drop removes the mark, and returns when that would survive the host.
func (m marks) drop(kind, id string) error {
	err := os.Remove(m.path(kind, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.sync(kind)
}

func (m marks) sync(kind string) error {
	d, err := os.Open(filepath.Join(string(m), kind))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
