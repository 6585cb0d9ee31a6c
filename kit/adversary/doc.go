//go:build !freebsd

package main

import (
	"fmt"
	"os"
)

// The attacks are FreeBSD's; on other systems the program only says so, so that the tree builds everywhere.
func main() {
	fmt.Fprintln(os.Stderr, "pgadversary: this program attacks FreeBSD jails; build it with GOOS=freebsd")
	os.Exit(2)
}
