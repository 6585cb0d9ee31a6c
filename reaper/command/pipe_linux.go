package command

import "golang.org/x/sys/unix"

// pipeBytes is more than a pipe's default, for fewer wake-ups from a command that writes much.
const pipeBytes = 256 << 10

// enlarge makes a pipe larger. It is refused over the user's share; smaller pipes work too.
func enlarge(fd int) { unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeBytes) }
