// Package bsdproc is what the FreeBSD kernel says of processes, and how it is asked: the reaper commands of procctl(2), and
// kinfo_proc records of sysctl(3). Layouts are those of the 64-bit little-endian platforms (amd64, arm64), which are the same on
// FreeBSD 13 to 15; they are plain bytes here, so that their offsets are tested on any host.
package bsdproc

import (
	"bytes"
	"encoding/binary"
)

// Sizes of the kernel's structures (sys/procctl.h, sys/user.h).
const (
	StatusSize  = 80
	PidInfoSize = 72
	PidsSize    = 72
	KillSize    = 80
	KinfoSize   = 1088
)

// Flags of a Status.
const (
	StatusOwned = 1 // the process asked about is itself a reaper
)

// Flags of a PidInfo.
const (
	PidValid  = 1
	PidChild  = 2 // a child of the reaper, so that the reaper can wait for it
	PidReaper = 4 // itself a reaper: its own descendants are not listed
)

// Flags of a kill.
const (
	KillSubtree = 2 // only what descends from one child of the reaper
)

// A Status is struct procctl_reaper_status. The kernel fills it in one lock section, so that it is true of one instant.
type Status struct {
	Flags       uint32
	Children    uint32
	Descendants uint32 // entries of the reaper's list, zombies included; members of nested reapers are not counted
	Reaper      int32
	Pid         int32 // one of the list, -1 if, and only if, it is empty
}

// DecodeStatus reads a Status from StatusSize bytes.
func DecodeStatus(b []byte) Status {
	return Status{Flags: u32(b, 0), Children: u32(b, 4), Descendants: u32(b, 8), Reaper: i32(b, 12), Pid: i32(b, 16)}
}

// Owned reports whether the status is of the asked process's own list.
func (s Status) Owned() bool { return s.Flags&StatusOwned != 0 }

// A PidInfo is struct procctl_reaper_pidinfo.
type PidInfo struct {
	Pid     int32
	Subtree int32 // the reaper's child that began this branch, even if it is gone
	Flags   uint32
}

// DecodePids reads entries up to the first that is not valid. The kernel does not say how many it wrote, so the buffer must
// have been zero.
func DecodePids(b []byte) []PidInfo {
	var list []PidInfo
	for ; len(b) >= PidInfoSize; b = b[PidInfoSize:] {
		p := PidInfo{Pid: i32(b, 0), Subtree: i32(b, 4), Flags: u32(b, 8)}
		if p.Flags&PidValid == 0 {
			break
		}
		list = append(list, p)
	}
	return list
}

// A pids is struct procctl_reaper_pids. It is a Go structure because its pointer must be seen by the collector.
type pids struct {
	count uint32
	_     [15]uint32
	list  *byte // count times PidInfoSize bytes
}

// EncodeKill returns struct procctl_reaper_kill. Subtree counts only with KillSubtree.
func EncodeKill(signal int, flags uint32, subtree int32) []byte {
	b := make([]byte, KillSize)
	binary.LittleEndian.PutUint32(b, uint32(signal))
	binary.LittleEndian.PutUint32(b[4:], flags)
	binary.LittleEndian.PutUint32(b[8:], uint32(subtree))
	return b
}

// DecodeKill reads what the kernel wrote into it: how many processes were signalled, and one that could not be (-1: none).
// Neither proves anything.
func DecodeKill(b []byte) (killed int, failed int32) { return int(u32(b, 12)), i32(b, 16) }

// States of a process.
const (
	Idle = iota + 1
	Run
	Sleep
	Stop
	Zombie
	Wait
	Lock
)

// A Process is the part of struct kinfo_proc that is of use here.
type Process struct {
	Pid     int
	Parent  int
	Tracer  int // 0: none
	State   int
	Session int // the process that began its session
	Jail    int
	Start   uint64 // microseconds since the epoch
	Command string
}

// DecodeProcesses reads records of kinfo_proc. It reports false when the kernel's records have another size than is known
// here: then nothing that they say can be trusted.
func DecodeProcesses(b []byte) ([]Process, bool) {
	if len(b)%KinfoSize != 0 {
		return nil, false
	}
	list := make([]Process, 0, len(b)/KinfoSize)
	for ; len(b) > 0; b = b[KinfoSize:] {
		if i32(b, 0) != KinfoSize {
			return nil, false
		}
		command, _, _ := bytes.Cut(b[447:467], []byte{0})
		list = append(list, Process{
			Pid: int(i32(b, 72)), Parent: int(i32(b, 76)), Tracer: int(i32(b, 576)), State: int(int8(b[388])), Session: int(i32(b, 88)), Jail: int(i32(b, 592)),
			Start:   binary.LittleEndian.Uint64(b[336:])*1_000_000 + binary.LittleEndian.Uint64(b[344:]),
			Command: string(command),
		})
	}
	return list, true
}

func u32(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
func i32(b []byte, at int) int32  { return int32(u32(b, at)) }
