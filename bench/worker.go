package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// toolList is the answer of a worker: as long as that of one with a few tools.
var toolList = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[{"name":"note","description":"` + strings.Repeat("x", 1500) + `","inputSchema":{"type":"object"}}]}}`

// workers are native workers that do nothing but answer, each at an address of its own.
type workers struct {
	servers   []*http.Server
	listeners []net.Listener
	serving   sync.WaitGroup
}

func startWorkers(n int) (*workers, error) {
	w := &workers{}
	for i := range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.close()
			return nil, fmt.Errorf("cannot start a worker: %w", err)
		}
		server := &http.Server{Handler: w.handler(i), ReadHeaderTimeout: 10 * time.Second}
		w.servers, w.listeners = append(w.servers, server), append(w.listeners, listener)
		w.serving.Go(func() { _ = server.Serve(listener) })
	}
	return w, nil
}

func (w *workers) close() {
	for _, server := range w.servers {
		_ = server.Close()
	}
	w.serving.Wait()
}

func (w *workers) address(i int) string { return w.listeners[i].Addr().String() }
func (w *workers) url(i int) string     { return "http://" + w.address(i) + "/mcp" }
func (w *workers) token(i int) string   { return fmt.Sprintf("worker-%d-%s", i, strings.Repeat("0", 32)) }

// handler answers POST with a list and GET with a stream that says nothing.
func (w *workers) handler(i int) http.HandlerFunc {
	token := "Bearer " + w.token(i)
	return func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != token {
			out.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodGet {
			out.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(out, ": open\n\n")
			_ = http.NewResponseController(out).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		out.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(out, toolList)
	}
}

// errNoNginx is the reason for not comparing with it.
var errNoNginx = errors.New("nginx: not installed, so the gateway is compared with the direct way only")

// A proxy is a running nginx.
type proxy struct {
	cmd *exec.Cmd
	url string
}

// startNginx starts nginx as a plain reverse proxy of a worker. As it does by itself, it writes a log and opens a connection
// for each request; so does playgroundd.
func startNginx(ctx context.Context, dir, worker string) (*proxy, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil, errNoNginx
		}
	}
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	work := filepath.Join(dir, "nginx")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make nginx's folder: %w", err)
	}
	settings := fmt.Sprintf(`daemon off; master_process off; worker_processes 1; pid %[1]s/pid; error_log stderr;
events { worker_connections 1024; }
http {
  access_log %[1]s/access.log; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server { listen %[2]s; location /mcp { proxy_pass http://%[3]s; proxy_buffering off; } }
}
`, work, listen, worker)
	file := filepath.Join(work, "nginx.conf")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, fmt.Errorf("cannot write nginx's configuration: %w", err)
	}
	p := &proxy{cmd: exec.Command(program, "-c", file, "-p", work), url: "http://" + listen + "/mcp"}
	var said bytes.Buffer
	p.cmd.Stderr = &said
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start nginx: %w", err)
	}
	if err := reachable(ctx, listen); err != nil {
		p.stop()
		return nil, fmt.Errorf("%w: nginx does not listen: %.300s", errNoNginx, said.String())
	}
	return p, nil
}

func (p *proxy) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// reachable waits until something listens.
func reachable(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
