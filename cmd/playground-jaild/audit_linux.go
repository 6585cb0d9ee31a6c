package main

import "playground/fault"

// appendOnly refuses: no audit files are kept on the development platform.
func appendOnly(int) error {
	return fault.New(fault.Unsupported, "audit files are made append-only on FreeBSD only")
}
