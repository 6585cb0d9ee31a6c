// Command playground is the operator's tool: it makes tenants and tokens, shows what runs, checks the host, serves MCP over
// standard input and output, and runs the whole suite from one folder.
//
// The work is done in package cli; the files here only turn flags into calls.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"playground/cli"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:]))
}

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string) int {
	env, err := environment()
	if err == nil {
		root := newRoot(env)
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
	}
	cli.Report(os.Stderr, err)
	if code := cli.ExitCode(err); code != 2 {
		return code
	}
	if _, said := err.(cli.StatusError); !said {
		fmt.Fprintln(os.Stderr, "hint: run `playground --help`, or COMMAND --help")
	}
	return 2
}

// environment is the real world for the commands.
func environment() (*cli.Env, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program's own folder: %w", err)
	}
	// The daemons lie beside the program itself, not beside a symbolic link to it.
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return &cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Uid: os.Geteuid(), Bin: filepath.Dir(self), Screen: screen(os.Stdout),
	}, nil
}
