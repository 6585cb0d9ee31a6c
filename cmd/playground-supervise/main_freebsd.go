package main

import (
	"errors"
	"fmt"
	"os"

	"playground/reaper/supervisor"
	"playground/seqpacket"
	"playground/version"
)

// controlFD is where the daemon left its connection.
const controlFD = 3

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "playground-supervise:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 || args[0] != "job" && args[0] != "-version" {
		return errors.New("cannot run alone: the daemons start this program (want job or -version)")
	}
	if args[0] == "-version" {
		fmt.Println(version.String())
		return nil
	}
	conn, err := seqpacket.FromFD(controlFD)
	if err != nil {
		return err
	}
	return supervisor.Run(conn)
}
