// Command mcpworker is a faculty worker for tests: a small MCP server over streamable HTTP that takes a token, and that can be told
// to do what workers must not do. It also plays the one who checks a worker: "mcpworker probe" makes an initialize and a
// tools/list, from inside the sandbox.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mcpworker:", err)
		os.Exit(3)
	}
}

// run is "mcpworker [probe] FLAGS".
func run(args []string) error {
	probing := len(args) > 0 && args[0] == "probe"
	if probing {
		args = args[1:]
	}
	fs := flag.NewFlagSet("mcpworker", flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:9001", "address to serve, or to probe")
	tokenFile := fs.String("token-file", "", "file with the token")
	behave := fs.String("behave", "serve", "serve, hang, crash, stubborn or daemonize")
	after := fs.Duration("after", 0, "when to crash")
	if err := fs.Parse(args); err != nil {
		return err
	}
	token, err := os.ReadFile(*tokenFile)
	if err != nil {
		return err
	}
	if probing {
		return probe(*listen, strings.TrimSpace(string(token)))
	}
	switch *behave {
	case "crash":
		time.AfterFunc(*after, func() {
			fmt.Println("crashing")
			os.Exit(7)
		})
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		if err := again(*tokenFile, "127.0.0.1:0", "hang"); err != nil {
			return err
		}
	case "daemonize":
		return again(*tokenFile, *listen, "serve")
	}
	return serve(*listen, strings.TrimSpace(string(token)), *behave == "hang")
}

// again starts this program once more, in a session of its own. An ignored signal stays ignored there.
func again(tokenFile, listen, behave string) error {
	cmd := exec.Command("/proc/self/exe", "--token-file", tokenFile, "--listen", listen, "--behave", behave)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// serve serves MCP until it is killed.
func serve(listen, token string, hang bool) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "mcpworker", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "says it again"},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Text string `json:"text"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("serving at", listener.Addr())
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		switch {
		case hang:
			<-r.Context().Done()
		case subtle.ConstantTimeCompare(want[:], got[:]) != 1:
			http.Error(w, "no", http.StatusUnauthorized)
		default:
			handler.ServeHTTP(w, r)
		}
	}))
}

// A bearer adds the token.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// probe prints how many tools there are.
func probe(address, token string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "probe", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + address, HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		return err
	}
	tools, err := session.ListTools(ctx, nil)
	if err = errors.Join(err, session.Close()); err != nil {
		return err
	}
	fmt.Println("tools:", len(tools.Tools))
	return nil
}
