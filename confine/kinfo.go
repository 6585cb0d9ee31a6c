package confine

import (
	"encoding/binary"
	"fmt"
)

// Sizes and values of the FreeBSD kernel's structures (sys/user.h), for the 64-bit little-endian platforms; they are the same on
// FreeBSD 13 to 15.
const (
	kinfoSize    = 1088 // struct kinfo_proc
	capableMode  = 1    // CRED_FLAG_CAPMODE of ki_cr_flags
	kfTypeSocket = 2
	kfTypePipe   = 3
	kfTypeKqueue = 5
)

// A kinfo is the part of struct kinfo_proc that tells whether a worker is confined.
type kinfo struct {
	pid, parent  int
	uid, ruid    int
	gid, rgid    int // saved and real
	egid         int // effective: the first of the list of groups
	jail         int
	tracer       int
	threads      int
	start        uint64 // microseconds since the epoch
	state        int8
	capabilities bool // in capability mode
	groups       int
	suid         int
}

// decodeKinfo reads one record; false when the kernel's records have another size than is known here.
func decodeKinfo(b []byte) (kinfo, bool) {
	if len(b) != kinfoSize || le32(b, 0) != kinfoSize {
		return kinfo{}, false
	}
	return kinfo{
		pid: int(le32(b, 72)), parent: int(le32(b, 76)), uid: int(le32(b, 168)), ruid: int(le32(b, 172)), suid: int(le32(b, 176)),
		rgid: int(le32(b, 180)), gid: int(le32(b, 184)), egid: int(le32(b, 192)), groups: int(int16(binary.LittleEndian.Uint16(b[188:]))),
		start: binary.LittleEndian.Uint64(b[336:])*1_000_000 + binary.LittleEndian.Uint64(b[344:]), state: int8(b[388]),
		tracer: int(le32(b, 576)), capabilities: le32(b, 588)&capableMode != 0, jail: int(le32(b, 592)), threads: int(le32(b, 596)),
	}, true
}

func le32(b []byte, at int) int32 { return int32(binary.LittleEndian.Uint32(b[at:])) }

// checkUser tells whether the process has the worker's ids and no others.
func (k kinfo) checkUser(uid, gid int) error {
	if k.uid != uid || k.ruid != uid || k.suid != uid {
		return fmt.Errorf("its user ids are %d %d %d, want %d", k.ruid, k.uid, k.suid, uid)
	}
	if k.rgid != gid || k.gid != gid || k.egid != gid {
		return fmt.Errorf("its group ids are %d %d %d, want %d", k.rgid, k.egid, k.gid, gid)
	}
	if k.groups > 1 { // the first is the effective one
		return fmt.Errorf("it is in %d groups", k.groups)
	}
	return nil
}

// checkJail tells whether the process is in the worker's jail.
func (k kinfo) checkJail(jid int) error {
	if jid <= 0 || k.jail != jid {
		return fmt.Errorf("it is in jail %d, want %d", k.jail, jid)
	}
	return nil
}

// An openFile is one record of struct kinfo_file.
type openFile struct{ fd, kind int }

// decodeFiles reads the records of a process's open files; false when they are malformed. Those with a number below zero stand for
// its folder, root, program and jail.
func decodeFiles(b []byte) ([]openFile, bool) {
	const least = 24 // up to the end of what is read here
	var list []openFile
	for len(b) > 0 {
		if len(b) < least {
			return nil, false
		}
		size := int(le32(b, 0))
		if size == 0 {
			break
		}
		if size < least || size > len(b) {
			return nil, false
		}
		list = append(list, openFile{fd: int(le32(b, 8)), kind: int(le32(b, 4))})
		b = b[size:]
	}
	return list, true
}

// checkFiles tells whether a worker has nothing open but its pipes, the doors, and the runtime's kqueue.
func checkFiles(list []openFile) error {
	seen, kqueues := make(map[int]bool), 0
	for _, f := range list {
		switch {
		case f.fd < 0:
		case f.fd < DoorsFD && f.kind == kfTypePipe, f.fd == DoorsFD && f.kind == kfTypeSocket:
			seen[f.fd] = true
		case f.fd > DoorsFD && f.kind == kfTypeKqueue && kqueues == 0:
			kqueues++
		default:
			return fmt.Errorf("descriptor %d (type %d) is not one it was given", f.fd, f.kind)
		}
	}
	if len(seen) != DoorsFD+1 {
		return fmt.Errorf("it has %d of the %d descriptors it was given", len(seen), DoorsFD+1)
	}
	return nil
}

// decodeRlimit reads a struct rlimit: two 64-bit values.
func decodeRlimit(b []byte) (soft, hard uint64, ok bool) {
	if len(b) != 16 {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), true
}
