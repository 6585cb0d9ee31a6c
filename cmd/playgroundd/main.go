// Command playgroundd faces the network: it authenticates MCP clients, serves the tools, and keeps the accounts. It has no
// root and owns nothing that runs; it asks playground-jaild and playground-reaperd, so restarting it loses no job and no
// output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"playground/daemon"
	"playground/fault"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errUsage):
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "playgroundd: %v\n", err)
	if hint := fault.HintOf(err); hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", hint)
	}
	if errors.Is(err, fault.ProofLost) {
		os.Exit(exitProofLost)
	}
	os.Exit(1)
}

// errUsage is a command line that was refused; the flag package has said why.
var errUsage = errors.New("bad usage")

// exitProofLost tells the service manager's log, and "playground up", that the end of a job was not proved.
const exitProofLost = 3

// flags parses the command line.
func flags(args []string, stderr io.Writer) (*daemon.Options, error) {
	set := flag.NewFlagSet("playgroundd", flag.ContinueOnError)
	set.SetOutput(stderr)
	options := daemon.Flags(set)
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, err
	} else if err != nil {
		return nil, errUsage
	}
	if set.NArg() > 0 {
		fmt.Fprintf(stderr, "playgroundd: unexpected argument %q\n", set.Arg(0))
		return nil, errUsage
	}
	return options, nil
}
