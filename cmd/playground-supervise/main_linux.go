package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"playground/jail/holder"
	"playground/reaper/jobinit"
	"playground/seqpacket"
	"playground/version"
)

// controlFD is where the parent left its connection.
const controlFD = 3

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("cannot run alone: the daemons start this program (want holder, init or -version)")
	}
	if args[0] == "-version" {
		fmt.Println(version.String())
		return nil
	}
	unix.CloseOnExec(controlFD)
	conn, err := seqpacket.FromFD(controlFD)
	if err != nil {
		return err
	}
	switch args[0] {
	case "holder":
		return holder.Hold(conn)
	case "init":
		return jobinit.Run(conn)
	}
	return fmt.Errorf("cannot run %q: want holder, init or -version", args[0])
}
