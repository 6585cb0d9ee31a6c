package jail

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"syscall"
)

// A pair is one name and value of the vectors that jail_set(2), jail_get(2) and nmount(2) take.
type pair struct {
	name  string
	value []byte // nil is the kernel's {NULL, 0}, which flags have
}

// vector lays pairs out as the kernel reads them: name, value, name, value. Names carry their NUL.
func vector(pairs []pair) [][]byte {
	v := make([][]byte, 0, 2*len(pairs))
	for _, p := range pairs {
		v = append(v, append([]byte(p.name), 0), p.value)
	}
	return v
}

// stringPair is a string parameter: the value carries its NUL, and is an error where it holds one.
func stringPair(name, value string) pair {
	return pair{name, append([]byte(value), 0)}
}

// intPair is a 32-bit parameter. The size must be exactly the kernel's (vfs_copyopt).
func intPair(name string, value int32) pair {
	return pair{name, binary.NativeEndian.AppendUint32(nil, uint32(value))}
}

// flagPair is a parameter that counts by being there. Its value would be ignored, even a false one.
func flagPair(name string) pair { return pair{name: name} }

// A kernelError keeps both answers of the kernel: the errno that programs branch on and the text that names the cause.
type kernelError struct {
	act     string // "create jail"
	name    string
	errno   syscall.Errno
	message string // may be empty: the kernel explains some errors only
}

// Error reads "cannot create jail "x": invalid argument (unknown parameter: y)".
func (e *kernelError) Error() string {
	text := fmt.Sprintf("cannot %s %q: %v", e.act, e.name, e.errno)
	if e.message != "" {
		text += " (" + e.message + ")"
	}
	return text
}

// Unwrap gives the errno to errors.Is.
func (e *kernelError) Unwrap() error { return e.errno }

// cString reads a buffer up to its first NUL.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
