package main

import (
	"os"

	"playground/fault"
)

// refuseRoot keeps the daemon that parses what strangers send from having rights it does not need.
func refuseRoot() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return fault.New(fault.Denied, "playgroundd does not run as root").
		WithHint("start it with: service playground start")
}
