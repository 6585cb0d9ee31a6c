package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A daemon that takes requests and never answers must not hang the play, and the reason is told.
func TestSilentDaemon(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	t.Cleanup(func() {
		close(release)
		server.Close()
	})
	lame := &tenant{name: "kit-lame", most: 100 * time.Millisecond}
	if err := lame.connect(t.Context(), server.URL, "token"); err == nil || !strings.Contains(err.Error(), "kit-lame: no answer within 100ms") {
		t.Errorf("%v", err)
	}
	lame.hangUp()
}

// The same holds for the operator's tool and for service(8).
func TestSilentPrograms(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{options: options{cli: tool, service: tool, patience: 0.0005}, report: &report{out: &bytes.Buffer{}}}
	for name, ask := range map[string]func() error{
		"tool":    func() error { return w.operator(t.Context(), nil, "ready") },
		"service": func() error { return w.service(t.Context(), "playground", "onestop") },
		"status":  func() error { _, err := w.status(t.Context()); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "no end within") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Steps follow each other until one fails; one that waits for ever is told apart from one that only failed.
func TestSteps(t *testing.T) {
	w := &world{options: options{patience: 0.0001}}
	made := 0
	fine := func(context.Context) error { made++; return nil }
	stuck := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if err := w.steps(t.Context(), fine, stuck, fine); err == nil || !strings.Contains(err.Error(), "no end within 120ms") || made != 1 {
		t.Errorf("%v after %d", err, made)
	}
	failed := errors.New("failed")
	if err := w.steps(t.Context(), fine, func(context.Context) error { return failed }, fine); err != failed || made != 2 {
		t.Errorf("%v after %d", err, made)
	}
}

// What goes wrong after somebody has ended the play is no failure of the suite's.
func TestStoppedPlay(t *testing.T) {
	var out bytes.Buffer
	stopped := false
	r := &report{out: &out, stopped: func() bool { return stopped }}
	r.check(false, "before", "a", "b")
	stopped = true
	r.check(false, "after", "a", "context canceled")
	r.check(true, "after, and fine", "a", "a")
	want := "not ok 1 - before | expected: a | seen: b\nok 2 - after # SKIP the play was ended from outside: context canceled\nok 3 - after, and fine | expected: a | seen: a\n"
	if out.String() != want || r.failed != 1 || r.skipped != 1 {
		t.Errorf("%d failed, %d skipped\n%s", r.failed, r.skipped, out.String())
	}
}

// What the session does not promise is no failure, and nothing else is forgiven for that.
func TestAttempted(t *testing.T) {
	var out bytes.Buffer
	a := &acceptance{world: &world{report: &report{out: &out}}}
	for _, enforced := range []bool{false, true} {
		a.enforced = enforced
		a.attempted("remove the pile", "ok")
	}
	a.enforced = false
	a.attempted("rewrite the pile", "ok")
	a.attempted("shorten the pile", "EPERM")
	verdicts := []string{"ok 1 - attempt: remove the pile # SKIP ", "not ok 2 - attempt: remove the pile |", "not ok 3 - attempt: rewrite the pile |", "ok 4 - attempt: shorten the pile | expected: an error | seen: EPERM"}
	for _, want := range verdicts {
		if !strings.Contains("\n"+out.String(), "\n"+want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
