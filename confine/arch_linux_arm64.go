package confine

import "golang.org/x/sys/unix"

// auditArch is this architecture as filters see it.
const auditArch = unix.AUDIT_ARCH_AARCH64
