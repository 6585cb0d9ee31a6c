package main

import "syscall"

// block takes a thread for a while.
func block() { syscall.Nanosleep(&syscall.Timespec{Sec: 60}, nil) }
