// Command playground-supervise is the small program next to a tenant's processes. The root daemons start it; nobody types
// it.
package main

import (
	"fmt"
	"os"

	"playground/version"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-version" {
		fmt.Println(version.String())
		return
	}
	fmt.Fprintln(os.Stderr, "playground-supervise: this version cannot supervise jails yet")
	os.Exit(1)
}
