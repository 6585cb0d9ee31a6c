//go:build !linux && !freebsd

package daemon

import (
	"errors"
	"fmt"
)

// Undumpable fails: this platform's way is not known.
func Undumpable() error {
	return fmt.Errorf("cannot forbid tracing of this process: %w", errors.ErrUnsupported)
}

// UndumpableParent fails, too.
func UndumpableParent() error { return Undumpable() }
