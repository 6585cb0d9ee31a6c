// The runtime keeps no file of a control group open, and asks for no name of its memory: a worker has neither.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
//go:debug decoratemappings=0

// Command playground-worker is a work-loop worker: one process that confines itself, says so, and waits to be told what to do.
// playground-reaperd starts it; nobody types it. It is always built without cgo and without the race detector: it drops its
// privileges on all threads itself.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"playground/confine"
	"playground/confine/escape"
	"playground/version"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// maxHandoff bounds the line that says what to do: a goal, tools, and the history of a run that is resumed.
const maxHandoff = 8 << 20

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "playground-worker:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "-version" {
		fmt.Println(version.String())
		return nil
	}
	// A pipe: what a person types at a terminal, or keeps in a file, is never taken for orders.
	if info, err := os.Stdin.Stat(); len(args) != 0 || err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return errors.New("cannot run alone: playground-reaperd starts this program (want -version)")
	}
	doorway, err := confine.Doors()
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	attempts, err := confine.Enter(in, os.Stdout)
	if err != nil {
		return err
	}
	handoff, err := readHandoff(in)
	if err != nil || handoff == nil {
		return err
	}
	claim := work(*handoff, doorway, attempts)
	return json.NewEncoder(os.Stdout).Encode(claim)
}

// readHandoff reads what to do; nil if whoever started this worker has no use for it. Errors do not say what was read: it holds
// the credential.
func readHandoff(in *bufio.Reader) (*doors.Handoff, error) {
	line, err := confine.ReadLine(in, maxHandoff)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what to do: %w", err)
	}
	var handoff doors.Handoff
	if err := json.Unmarshal(line, &handoff); err != nil || handoff.Credential == "" {
		return nil, errors.New("cannot read what to do: it is malformed")
	}
	return &handoff, nil
}

// work runs the loop, or the escape suite where that is asked for.
func work(handoff doors.Handoff, doorway net.Conn, attempts []confine.Attempt) loop.Claim {
	ctx := context.Background()
	if len(handoff.Escape) > 0 {
		return reach(ctx, handoff, doorway, attempts)
	}
	client := doors.NewClient(doorway, handoff.Credential)
	defer client.Close()
	return loop.Run(ctx, handoff.Spec, client)
}

// reach runs the escape suite and leaves each row as a note on the run's thread.
func reach(ctx context.Context, handoff doors.Handoff, doorway net.Conn, attempts []confine.Attempt) loop.Claim {
	failed := func(err error) loop.Claim { return loop.Claim{Outcome: loop.Failed, Error: err.Error()} }
	plan, err := escape.Parse(handoff.Escape)
	if err != nil {
		return failed(err)
	}
	if plan.UseUp != "" { // how that ends is the row, and it is not this process that can tell
		escape.UseUp(plan.UseUp)
		return failed(fmt.Errorf("using up %s did not end the worker", plan.UseUp))
	}
	plan.Thread, plan.Bearer, plan.Doors, plan.Start = handoff.Thread, handoff.Credential, doorway, attempts
	var rows []escape.Row
	made, red, err := escape.Run(plan, func(r escape.Row) error {
		rows = append(rows, r)
		return nil
	})
	if err != nil {
		return failed(err)
	}
	client := doors.NewClient(doorway, handoff.Credential)
	defer client.Close()
	for _, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			return failed(err)
		}
		note := loop.Entry{Kind: loop.KindNote, Act: loop.ActOf(loop.KindNote), Body: loop.NoteBody{Text: string(text)}}
		if _, err := client.Append(ctx, note); err != nil {
			return failed(err)
		}
	}
	summary := escape.Summary(made, red)
	if red > 0 {
		return loop.Claim{Outcome: loop.Failed, Summary: summary, Error: summary}
	}
	return loop.Claim{Outcome: loop.Completed, Summary: summary}
}
