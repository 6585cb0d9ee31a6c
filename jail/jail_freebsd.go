package jail

import (
	"encoding/binary"
	"errors"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flags of jail_set(2) and jail_get(2). Create and update are never combined: parameters of creation would be refused.
const (
	jailCreate = 0x01
	jailDying  = 0x08
)

// errmsgSize is the room for the kernel's text; its messages are shorter (kern_jail.c, vfs_mount.c).
const errmsgSize = 256

// vectorCall makes a system call that takes name and value pairs, and keeps the kernel's text beside its errno. Buffers of
// pairs are filled in place where the call fills them; strings there end at their NUL.
func vectorCall(number uintptr, act, name string, pairs []pair, flags int) (int, error) {
	message := make([]byte, errmsgSize)
	buffers := vector(append(pairs[:len(pairs):len(pairs)], pair{"errmsg", message}))
	iov := make([]unix.Iovec, len(buffers))
	for i, b := range buffers {
		if len(b) > 0 {
			iov[i].Base = &b[0]
		}
		iov[i].SetLen(len(b))
	}
	result, _, errno := unix.Syscall(number, uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)), uintptr(flags))
	runtime.KeepAlive(buffers)
	if errno != 0 {
		return 0, &kernelError{act: act, name: name, errno: errno, message: cString(message)}
	}
	return int(result), nil
}

// createJail makes a jail and returns the number that the kernel chose.
func (freebsd) createJail(name string, params []param) (int, error) {
	pairs, err := known(params, kernelHasParam)
	if err != nil {
		return 0, err
	}
	jid, err := vectorCall(unix.SYS_JAIL_SET, "create jail", name, pairs, jailCreate)
	if err != nil {
		return 0, err
	}
	if jid <= 0 { // 0 would be the host
		return 0, errors.New("internal error: the kernel gave a new jail no number")
	}
	return jid, nil
}

// kernelHasParam reports whether the kernel knows a jail parameter: each is described by a sysctl. Only "no such name" means
// no, so that an ability is not left open because of some other error.
func kernelHasParam(name string) (bool, error) {
	_, err := unix.SysctlRaw("security.jail.param." + positive(name))
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return true, nil // also where it is a node, which cannot be read
}

// getJail describes the jail that key names: "jid", "name" or "lastjid", which is the next one after a number.
func getJail(key pair, label string, flags int) (Info, error) {
	asked := []pair{
		key,
		{"parent", make([]byte, 4)},
		{"path", make([]byte, maxJailPath)},
		{"dying", make([]byte, 4)},
		{"children.cur", make([]byte, 4)},
	}
	jidAt, nameAt := 0, 0
	if key.name != "jid" {
		jidAt = len(asked)
		asked = append(asked, pair{"jid", make([]byte, 4)})
	}
	if key.name != "name" {
		nameAt = len(asked)
		asked = append(asked, pair{"name", make([]byte, maxJailName)})
	}
	if _, err := vectorCall(unix.SYS_JAIL_GET, "look up jail", label, asked, flags); err != nil {
		return Info{}, err
	}
	info := Info{
		JID: intValue(asked[jidAt]), Parent: intValue(asked[1]), Path: cString(asked[2].value), State: Alive,
		Children: intValue(asked[4]), Name: cString(asked[nameAt].value),
	}
	if intValue(asked[3]) != 0 {
		info.State = Dying
	}
	return info, nil
}

// intValue reads what the kernel wrote into an int parameter.
func intValue(p pair) int { return int(int32(binary.NativeEndian.Uint32(p.value))) }

// jails lists the jails of the host in the order of their numbers.
func (freebsd) jails(dying bool) ([]Info, error) {
	flags := 0
	if dying {
		flags = jailDying
	}
	var list []Info
	for last := 0; ; {
		info, err := getJail(intPair("lastjid", int32(last)), "next", flags)
		if errors.Is(err, unix.ENOENT) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, info)
		last = info.JID
	}
}

// removeJail begins the removal of a jail and its children: all their processes get SIGKILL, and none can start.
func (freebsd) removeJail(jid int) error {
	if jid <= 0 {
		return errors.New("internal error: removal of jail 0 asked for")
	}
	if _, _, errno := unix.Syscall(unix.SYS_JAIL_REMOVE, uintptr(jid), 0, 0); errno != 0 && errno != unix.EINVAL { // EINVAL: gone
		return &kernelError{act: "remove jail", name: strconv.Itoa(jid), errno: errno}
	}
	return nil
}
