package main

import (
	"syscall"
	"time"
)

// block takes a thread for a while.
func block(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&ts, nil)
}
