// Package demo is "playground demo": it starts the whole suite in a temporary folder, makes tenants, drives it with a real
// MCP client over HTTP and once over standard input and output, gives an agent a goal and judges what it does, puts a faculty
// worker between a tenant and its client, checks every answer, and writes a transcript that a person likes to read. It fails if
// anything differs from what it should be.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"playground/cli"
	"playground/suite"
	"playground/version"
)

// Options say where the demonstration finds its programs and how it looks.
type Options struct {
	Env    *cli.Env  // of the command line; the demonstration uses its own configuration
	Out    io.Writer // the transcript
	Colour bool
	// NoIsolation goes on without isolation and marks the steps that need it. Reason says why.
	NoIsolation bool
	Reason      string
}

// Run plays the demonstration. It returns an error if anything was not as it should be.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute) // a machine that does other things builds slowly
	defer cancel()
	began := time.Now()
	t := &transcript{out: o.Out, colour: o.Colour}
	fmt.Fprintf(o.Out, "%s %s: what it does, shown by a real MCP client\n", t.paint(bold, "Playground"), version.String())
	if o.NoIsolation {
		fmt.Fprint(o.Out, t.paint(red, banner))
		fmt.Fprintf(o.Out, "  Why:%s\n", o.Reason)
	}
	state, err := stateFolder()
	if err != nil {
		return err
	}
	err = play(ctx, t, o, state)
	err = errors.Join(err, suite.Remove(state))
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "\n%s\n", t.summary(time.Since(began)))
	if t.failed > 0 {
		return fmt.Errorf("%d of %d checks of the demonstration failed", t.failed, t.failed+t.passed)
	}
	return nil
}

// summary is the last line.
func (t *transcript) summary(took time.Duration) string {
	text := fmt.Sprintf("%d checks passed, %d failed", t.passed, t.failed)
	if t.unseen > 0 {
		text += fmt.Sprintf(", %d could not be shown here", t.unseen)
	}
	look := green
	if t.failed > 0 {
		look = red
	}
	return t.paint(look, text) + fmt.Sprintf(", in %s", spent(took))
}

const banner = `
  #############################################################################
  ##                                                                         ##
  ##   N O   I S O L A T I O N                                               ##
  ##                                                                         ##
  ##   This host forbids the namespaces that separate tenants. The           ##
  ##   demonstration goes on with --isolation=none: commands run as YOUR     ##
  ##   user, with YOUR files. The steps that show isolation are left out.    ##
  ##                                                                         ##
  #############################################################################
`

// stateFolder makes a temporary folder whose path is short enough for sockets, and that mapped uids can enter.
func stateFolder() (string, error) {
	base := os.TempDir()
	if len(base) > 40 {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "playground-demo-")
	if err != nil {
		return "", fmt.Errorf("cannot make a temporary folder: %w", err)
	}
	return dir, nil
}

// freePort returns an address of this machine that nobody listens on now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// play plays both acts: what every suite does, and what one does that is configured further. Between them the suite stops and
// starts on what it left.
func play(ctx context.Context, t *transcript, o Options, state string) error {
	listen, err := freePort()
	if err != nil {
		return err
	}
	isolation := "auto"
	if o.NoIsolation {
		isolation = "none"
	}
	d := &demo{t: t, env: *o.Env, state: state, isolated: !o.NoIsolation, tokens: map[string]string{}}
	d.api.http.Transport = &http.Transport{}
	options := suite.Options{State: state, Listen: listen, Isolation: isolation, Bin: o.Env.Bin, Say: d.news.add, Edit: d.firstConfig}
	if err := d.act(ctx, "The suite starts: three daemons, as this user, from one folder", options, d.steps); err != nil {
		return err
	}
	if o.NoIsolation {
		return nil // all that follows needs it
	}
	if err := d.secondConfig(); err != nil {
		return err
	}
	return d.act(ctx, "The suite starts again, on what it left, with more to do", options, d.moreSteps)
}

// act starts the suite, plays steps and stops the suite again, whatever happens.
func (d *demo) act(ctx context.Context, title string, o suite.Options, steps func(context.Context) error) error {
	t := d.t
	t.title("%s", title)
	t.asked("$", fmt.Sprintf("playground up --state %s --listen %s --isolation %s", o.State, o.Listen, o.Isolation))
	s, err := suite.Open(o)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, line := range d.settings {
		t.note("%s", line)
	}
	began := time.Now()
	run, err := startSuite(ctx, s)
	if err != nil {
		return err
	}
	news := d.news.take()
	t.answered(news, time.Since(began))
	t.check(true, "all %d daemons said READY=1 (%s)", strings.Count(news, " is ready"), spent(time.Since(began)))

	d.suite, d.env.Config = s, s.ConfigPath
	if err = steps(ctx); err != nil {
		t.note("the daemons' logs end so:\n%s", logs(s.LogDir()))
	}
	t.title("The suite stops, in reverse order")
	began = time.Now()
	stopErr := run.stop()
	t.answered(d.news.take(), time.Since(began))
	t.check(stopErr == nil, "every daemon is gone (%s)", spent(time.Since(began)))
	return err
}

// A running suite, with the goroutine that runs it.
type running struct {
	cancel context.CancelFunc
	result chan error
}

// startSuite runs s until ctx ends or stop is called, and returns when it is ready.
func startSuite(ctx context.Context, s *suite.Suite) (*running, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel, result: make(chan error, 1)}
	ready := make(chan struct{})
	go func() { r.result <- s.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
		return r, nil
	case err := <-r.result:
		cancel()
		if err == nil {
			err = context.Canceled
		}
		return nil, err
	}
}

func (r *running) stop() error {
	r.cancel()
	return <-r.result
}

// lines collects news from several goroutines.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, line)
}

// take returns what came since the last take.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.text, "\n")
	l.text = nil
	return text
}

// logs returns the ends of the daemons' logs, for a demonstration that failed.
func logs(dir string) string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is sound
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "-- %s\n%s\n", filepath.Base(path), text[max(0, len(text)-2000):])
	}
	return b.String()
}

// operator runs an operator's command and decodes its JSON.
func (d *demo) operator(ctx context.Context, shown string, command func(*cli.Env, context.Context) error, v any) error {
	d.t.asked("$", "playground "+shown)
	var out bytes.Buffer
	env := d.env
	env.JSON, env.Stdout = true, &out
	if err := command(&env, ctx); err != nil {
		return err
	}
	return json.Unmarshal(out.Bytes(), v)
}
