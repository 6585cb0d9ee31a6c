//go:build !linux

// Command adversary is run inside a sandbox by tests. It attacks Linux sandboxes only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "adversary: nothing to attack on this platform yet")
	os.Exit(1)
}
