package cli

import (
	"fmt"
	"runtime"

	"playground/version"
)

// Version prints the build's version.
func (e *Env) Version() error {
	if e.JSON {
		return e.printJSON(map[string]string{"version": version.String(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintf(e.Stdout, "playground %s %s/%s\n", version.String(), runtime.GOOS, runtime.GOARCH)
	return err
}
