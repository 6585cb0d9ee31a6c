// Command starter is a daemon of one worker for tests: it starts the worker in its first argument, hands it the line on its own
// standard input, and prints what the worker prints. It serves the doors of a kernel that refuses all that reaches it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	"playground/confine"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("refused:", err)
	}
}

func run() error {
	uid, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	var bounds confine.Bounds
	if err := json.Unmarshal([]byte(os.Args[3]), &bounds); err != nil {
		return err
	}
	p, err := confine.OpenProgram(os.Args[1])
	if err != nil {
		return err
	}
	defer p.Close()
	w, err := p.Start(context.Background(), confine.Start{Bounds: bounds.WithDefaults(), UID: uid, GID: uid})
	if err != nil {
		if w != nil {
			w.Wait()
		}
		return err
	}
	said := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(w.Stderr, 4096)) // its last words; a test of what it says wants no more
		said <- text
		io.Copy(io.Discard, w.Stderr)
	}()
	conn, err := net.FileConn(w.Doors)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go doors.Serve(ctx, conn, doors.NewHandler(func(bearer string) (loop.Kernel, doors.Bounds, bool) {
		return nil, doors.Bounds{Thread: "th_own", Kinds: []string{loop.KindNote}}, bearer == "right"
	}))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	io.WriteString(w.Stdin, line)
	w.Stdin.Close()
	io.Copy(os.Stdout, w.Stdout)
	state, err := w.Wait()
	if err != nil {
		return err
	}
	fmt.Printf("said: %q\n", <-said)
	exit := confine.ExitOf(state.Sys().(syscall.WaitStatus))
	left, err := w.Left()
	exit.Cleanup.Proven = err == nil && len(left) == 0
	text, err := json.Marshal(exit)
	fmt.Printf("exit: %s\n", text)
	return err
}
