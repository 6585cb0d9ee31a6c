package main

import "playground/fault"

// oneFolder refuses to run the suite as one user from one folder: jails need root, and playgroundd refuses root. Here, before
// daemons of root have made anything.
func oneFolder(command string) error {
	return fault.New(fault.Unsupported, "%s is for Linux: on FreeBSD each daemon runs as the user that it needs, under rc(8)", command).
		WithHint("service playground start; see playground_rc(8)")
}
