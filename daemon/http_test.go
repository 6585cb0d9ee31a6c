package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// server runs an HTTPTask of handler on a loopback port.
func server(t *testing.T, handler http.HandlerFunc) (url string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	task := HTTPTask("http", &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}, listener)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- task.Run(ctx) }()
	<-task.Ready()
	return "http://" + listener.Addr().String(), func() error {
		cancel()
		return <-done
	}
}

func get(t *testing.T, url string) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestHTTPTaskLetsRequestsEnd(t *testing.T) {
	entered := make(chan struct{})
	url, stop := server(t, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		time.Sleep(200 * time.Millisecond)
		_, _ = io.WriteString(w, "whole")
	})
	got := make(chan string, 1)
	go func() {
		body, err := get(t, url)
		if err != nil {
			body = err.Error()
		}
		got <- body
	}()
	<-entered
	if err := stop(); err != nil {
		t.Errorf("stop = %v", err)
	}
	if body := <-got; body != "whole" {
		t.Errorf("the running request got %q", body)
	}
	if _, err := get(t, url); err == nil {
		t.Error("the server still answers")
	}
}

func TestHTTPTaskCutsStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the whole grace")
	}
	url, stop := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // a stream that only the client ends
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("stop = %v", err)
	}
	if took := time.Since(began); took < shutdownGrace || took > shutdownGrace+10*time.Second {
		t.Errorf("stop took %v, want a bit more than %v", took, shutdownGrace)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
}

func TestHTTPTaskFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	err = HTTPTask("http", new(http.Server), listener).Run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "cannot serve on 127.0.0.1:") {
		t.Errorf("Run on a closed listener = %v", err)
	}
}

// A task that is stopped before it served leaves no listener behind.
func TestHTTPTaskStoppedAtOnce(t *testing.T) {
	for range 50 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := HTTPTask("http", new(http.Server), listener).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := listener.Accept(); err == nil {
			t.Fatal("the listener is open")
		}
	}
}
