// Command faculty-notebook is a small faculty: an MCP server over HTTP that keeps a tenant's notes in the tenant's own pile.
// It offers append_note and search_notes. It runs inside the tenant's sandbox, and takes
// what every faculty worker gets from there:
//
//	faculty-notebook --listen 127.0.0.1:9001 --token-file FILE
//	PILE     the file that notes are appended to
//	PERSONA  whom a note is signed with
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faculty-notebook:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("faculty-notebook", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:9001", "a loopback `address` to serve MCP on, at /mcp")
	tokenFile := flags.String("token-file", "", "the `file` with the bearer token that callers must show")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	path := os.Getenv("PILE")
	if path == "" {
		return errors.New("PILE names no file: set it to the pile that notes go to")
	}
	token, err := readToken(*tokenFile)
	if err != nil {
		return err
	}
	notes := newNotebook(path, os.Getenv("PERSONA"), time.Now)
	if err := notes.refresh(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	return serve(ctx, listener, handler(notes, token))
}

// readToken reads the internal bearer token, without the line end that editors add.
func readToken(path string) (string, error) {
	if path == "" {
		return "", errors.New("--token-file is missing: without a token anybody on this address could write notes")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimRight(string(text), "\r\n")
	if len(token) < 32 {
		return "", fmt.Errorf("the token in %s is shorter than 32 characters", path)
	}
	return token, nil
}

// serve answers until ctx ends, then gives requests in progress five seconds.
func serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		return server.Close() // streams that stay open must not keep the process
	}
	return nil
}
