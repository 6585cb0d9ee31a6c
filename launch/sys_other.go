//go:build !linux && !freebsd

package launch

import "errors"

func duplicate(int, int) error  { return errors.ErrUnsupported }
func closeOnExecFrom(int) error { return errors.ErrUnsupported }
func noNewPrivileges() error    { return errors.ErrUnsupported }
