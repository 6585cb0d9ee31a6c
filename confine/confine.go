// Package confine is the layers around a work-loop worker: what the worker puts around itself, how the daemon that started it
// looks at each layer from outside, and what a report of them says. A worker is one process that runs what a model proposes; it
// may touch nothing but the descriptors that it was started with.
//
// The worker's own word is never enough: Verify reads every layer from the kernel, and the worker's report adds what only a
// process itself can try, with the error that it got. A layer that cannot be verified is red, and a worker with a red layer is
// killed before it has been told anything.
package confine

import (
	"errors"
	"strings"
	"time"

	"playground/fault"
)

// A Layer is the name of one layer, as reports and logs say it.
type Layer string

// The layers.
const (
	User        Layer = "user"        // a user id, or on Linux a user namespace, of its own
	Network     Layer = "network"     // no network
	Root        Layer = "root"        // an empty, read-only root
	IPC         Layer = "ipc"         // no shared memory or queues of others
	Host        Layer = "host"        // no host name of others
	Privileges  Layer = "privileges"  // no capability or privilege, and no way to one
	Syscalls    Layer = "syscalls"    // a filter of system calls, or capability mode
	Limits      Layer = "limits"      // resource limits
	Environment Layer = "environment" // nothing but PATH
	Descriptors Layer = "descriptors" // nothing but standard input and output, and the doors
	Tracing     Layer = "tracing"     // nobody looks into it, and it leaves no core file
	Lifetime    Layer = "lifetime"    // it ends with the daemon that started it
	Image       Layer = "image"       // it is the program that the daemon opened when it started
)

// Layers returns every layer, in the order of reports.
func Layers() []Layer {
	return []Layer{User, Network, Root, IPC, Host, Privileges, Syscalls, Limits, Environment, Descriptors, Tracing, Lifetime, Image}
}

// A LayerState is what is known of one layer.
type LayerState struct {
	Name   Layer  `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // what was seen; for a red layer, what was expected too
}

// A Report is what is known of a worker's layers, once each.
type Report struct {
	Layers []LayerState `json:"layers"`
}

// Err returns nil if every layer was looked at and is as it should be; otherwise an error of kind fault.Denied that names the
// layers that are not.
func (r Report) Err() error {
	seen := make(map[Layer]bool, len(r.Layers))
	var red []string
	for _, l := range r.Layers {
		seen[l.Name] = true
		if !l.OK {
			red = append(red, string(l.Name)+" ("+l.Detail+")")
		}
	}
	for _, name := range Layers() {
		if !seen[name] {
			red = append(red, string(name)+" (not verified)")
		}
	}
	if len(red) == 0 {
		return nil
	}
	return fault.New(fault.Denied, "the worker is not isolated: %s", strings.Join(red, "; ")).
		WithHint("run `playground doctor`; the worker was killed and held no credential")
}

// Default limits of a worker.
const (
	// DefaultAddressBytes bounds the address space. A Go program reserves some 1.2 GiB of it that it never touches.
	DefaultAddressBytes = 2 << 30
	// DefaultDataBytes bounds what it may write to: its memory. A loop with a history of some megabytes takes a tenth.
	DefaultDataBytes = 512 << 20
	DefaultThreads   = 32
	DefaultFiles     = 16
	DefaultCPU       = time.Hour
)

// Bounds are the resource limits of one worker that may differ between runs. The others are fixed: no core file, no file of
// any size, no locked memory, no other process.
type Bounds struct {
	AddressBytes int64 `json:"address_bytes"` // RLIMIT_AS; Linux only: FreeBSD's counts reservations of the runtime too
	DataBytes    int64 `json:"data_bytes"`    // RLIMIT_DATA; on FreeBSD swapuse and memoryuse of rctl(8), and RLIMIT_SWAP
	Threads      int64 `json:"threads"`       // RLIMIT_NPROC of Linux, which counts threads
	CPUSeconds   int64 `json:"cpu_seconds"`   // RLIMIT_CPU
	Files        int64 `json:"files"`         // RLIMIT_NOFILE
}

// WithDefaults fills what is zero.
func (b Bounds) WithDefaults() Bounds {
	fill := func(v *int64, value int64) {
		if *v == 0 {
			*v = value
		}
	}
	fill(&b.AddressBytes, DefaultAddressBytes)
	fill(&b.DataBytes, DefaultDataBytes)
	fill(&b.Threads, DefaultThreads)
	fill(&b.CPUSeconds, int64(DefaultCPU/time.Second))
	fill(&b.Files, DefaultFiles)
	return b
}

// Validate refuses bounds under which a worker could not live, and such as are none. The lower ones are what an idle worker was
// measured to need, with room to work.
func (b Bounds) Validate() error {
	for _, l := range []struct {
		name            string
		value, low, top int64
	}{
		{"address_bytes", b.AddressBytes, 1536 << 20, 1 << 40},
		{"data_bytes", b.DataBytes, 128 << 20, 1 << 40},
		{"threads", b.Threads, 12, 512},
		{"cpu_seconds", b.CPUSeconds, 1, int64(7 * 24 * time.Hour / time.Second)},
		{"files", b.Files, 8, 64},
	} {
		if l.value < l.low || l.value > l.top {
			return fault.New(fault.Invalid, "limit %s must be between %d and %d, not %d", l.name, l.low, l.top, l.value)
		}
	}
	return nil
}

// ErrReport is a worker whose report is missing or malformed.
var ErrReport = errors.New("the worker did not report")
