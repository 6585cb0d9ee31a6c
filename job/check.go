package job

import (
	"bytes"
	"strings"

	"playground/fault"
)

// check returns an error for a Spec that no shell could be given, and sets the mode if none is named.
func (m *Manager) check(spec *Spec) error {
	switch spec.Mode {
	case "":
		spec.Mode = Login
	case Login, Clean:
	default:
		return fault.New(fault.Invalid, "unknown mode %q", spec.Mode)
	}
	if spec.Tenant == "" {
		return fault.New(fault.Invalid, "the tenant is missing")
	}
	if len(spec.Command) == 0 {
		return fault.New(fault.Invalid, "the command is empty")
	}
	size := len(spec.Command)
	for _, arg := range spec.Args {
		size += len(arg)
	}
	if size > m.limits.CommandBytes {
		return fault.New(fault.TooLarge, "the command has %d bytes, over the limit of %d", size, m.limits.CommandBytes).
			WithHint("write a script file first and run that")
	}
	if len(spec.Stdin) > m.limits.StdinBytes {
		return fault.New(fault.TooLarge, "the input has %d bytes, over the limit of %d", len(spec.Stdin), m.limits.StdinBytes).
			WithHint("send it in parts, each appended to a file")
	}
	return checkNUL(spec)
}

// checkNUL refuses a NUL byte where the kernel would end the text at it: the command would run cut short.
func checkNUL(spec *Spec) error {
	if i := bytes.IndexByte(spec.Command, 0); i >= 0 {
		return fault.New(fault.Invalid, "the command has a NUL byte, at offset %d", i).
			WithHint("send such bytes as standard input, or make them with printf '\\000'")
	}
	for _, arg := range spec.Args {
		if bytes.IndexByte(arg, 0) >= 0 {
			return fault.New(fault.Invalid, "an argument or a path has a NUL byte")
		}
	}
	if strings.IndexByte(spec.Cwd, 0) >= 0 {
		return fault.New(fault.Invalid, "the working directory has a NUL byte")
	}
	return nil
}
