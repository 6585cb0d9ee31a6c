package confine

import "golang.org/x/sys/unix"

// auditArch is this architecture as filters see it.
const auditArch = unix.AUDIT_ARCH_AARCH64

// threadLocal: a new thread sets its thread-local storage itself here.
const threadLocal = 0
