package confine

import "golang.org/x/sys/unix"

// auditArch is this architecture as filters see it.
const auditArch = unix.AUDIT_ARCH_X86_64

// threadLocal is the flag with which a new thread gets its thread-local storage.
const threadLocal = unix.CLONE_SETTLS
