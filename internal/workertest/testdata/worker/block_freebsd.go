package main

import "time"

// block does not take a thread: there are no limits of threads here but by rctl(8).
func block(d time.Duration) { time.Sleep(d) }
