package bsdproc

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// The sizes that the C compiler gives these structures on both platforms.
func TestSizes(t *testing.T) {
	for name, got := range map[string][2]uintptr{
		"procctl_reaper_pids":        {unsafe.Sizeof(pids{}), PidsSize},
		"procctl_reaper_pids.list":   {unsafe.Offsetof(pids{}.list), 64},
		"procctl_reaper_pids.count":  {unsafe.Offsetof(pids{}.count), 0},
		"procctl_reaper_status":      {StatusSize, 80},
		"procctl_reaper_pidinfo":     {PidInfoSize, 72},
		"procctl_reaper_kill":        {KillSize, 80},
		"kinfo_proc":                 {KinfoSize, 1088},
		"procctl_reaper_kill buffer": {uintptr(len(EncodeKill(9, 0, 0))), 80},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %d, want %d", name, got[0], got[1])
		}
	}
}

func put(b []byte, at int, v int32) { binary.LittleEndian.PutUint32(b[at:], uint32(v)) }

func TestDecodeStatus(t *testing.T) {
	b := make([]byte, StatusSize)
	for i, v := range []int32{1, 2, 3, 4, -1} {
		put(b, 4*i, v)
	}
	want := Status{Flags: 1, Children: 2, Descendants: 3, Reaper: 4, Pid: -1}
	if got := DecodeStatus(b); got != want || !got.Owned() {
		t.Errorf("got %+v", got)
	}
}

func TestDecodePids(t *testing.T) {
	b := make([]byte, 4*PidInfoSize)
	for i, p := range []PidInfo{{10, 10, PidValid | PidChild}, {11, 10, PidValid | PidReaper}} {
		put(b, i*PidInfoSize, p.Pid)
		put(b, i*PidInfoSize+4, p.Subtree)
		put(b, i*PidInfoSize+8, int32(p.Flags))
	}
	put(b, 3*PidInfoSize, 99) // behind an entry that is not valid: left from nowhere
	put(b, 3*PidInfoSize+8, PidValid)
	want := []PidInfo{{10, 10, 3}, {11, 10, 5}}
	if diff := cmp.Diff(want, DecodePids(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := DecodePids(b[:PidInfoSize-1]); got != nil {
		t.Errorf("of a short buffer: %v", got)
	}
}

func TestKill(t *testing.T) {
	b := EncodeKill(9, KillSubtree, 4321)
	for at, want := range map[int]int32{0: 9, 4: 2, 8: 4321, 12: 0, 16: 0, 20: 0, 76: 0} {
		if got := i32(b, at); got != want {
			t.Errorf("at %d: %d, want %d", at, got, want)
		}
	}
	put(b, 12, 7)
	put(b, 16, -1)
	if killed, failed := DecodeKill(b); killed != 7 || failed != -1 {
		t.Errorf("got %d, %d", killed, failed)
	}
}

func TestDecodeProcesses(t *testing.T) {
	b := make([]byte, 2*KinfoSize)
	for i := range 2 {
		r := b[i*KinfoSize:]
		put(r, 0, KinfoSize)
		put(r, 72, int32(100+i))
		put(r, 76, 1)
		put(r, 88, 33)
		put(r, 576, 55)
		put(r, 592, 12)
		r[388] = Stop
		binary.LittleEndian.PutUint64(r[336:], 1_700_000_000)
		binary.LittleEndian.PutUint64(r[344:], 42)
		copy(r[447:467], "sh")
	}
	got, ok := DecodeProcesses(b)
	want := Process{Pid: 101, Parent: 1, Tracer: 55, State: Stop, Session: 33, Jail: 12, Start: 1_700_000_000_000_042, Command: "sh"}
	if !ok || len(got) != 2 || got[1] != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	put(b, KinfoSize, KinfoSize+8) // a kernel with other records
	if got, ok := DecodeProcesses(b); ok {
		t.Errorf("records of another size were read: %+v", got)
	}
	if _, ok := DecodeProcesses(b[:KinfoSize-1]); ok {
		t.Error("a cut record was read")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, 2*KinfoSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list := DecodePids(b); len(list) > len(b)/PidInfoSize {
			t.Errorf("%d entries of %d bytes", len(list), len(b))
		}
		if list, ok := DecodeProcesses(b); ok && len(list) != len(b)/KinfoSize {
			t.Errorf("%d records of %d bytes", len(list), len(b))
		}
	})
}
