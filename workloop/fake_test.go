package workloop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"playground/inference"
	"playground/policy"
	"playground/record"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

const (
	operator = "did:sync:user:owner"
	alice    = "did:sync:user:alice"
	bob      = "did:sync:user:bob"
)

// A worker is what a fake worker does with its handoff: nil is the real loop over the real doors.
type worker func(ctx context.Context, h doors.Handoff, conn net.Conn) (stdout []byte, exit workloop.Exit)

// starter is an unconfined stand-in for reaperd: the worker is a goroutine at the other end of a socket pair.
type starter struct {
	mu      sync.Mutex // guards what follows
	work    worker
	err     error
	started int
	alive   int
	kills   map[string]func() // by the run's thread
}

func (s *starter) set(w worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work = w
}

func (s *starter) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// kill ends a run's worker as the kernel's out-of-memory killer would.
func (s *starter) kill(thread string) {
	s.mu.Lock()
	kill := s.kills[thread]
	s.mu.Unlock()
	if kill != nil {
		kill()
	}
}

func (s *starter) counts() (started, alive int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started, s.alive
}

func (s *starter) Start(_ context.Context, r workloop.WorkerRequest) (workloop.Worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return workloop.Worker{}, s.err
	}
	mine, theirs, err := socketPair()
	if err != nil {
		return workloop.Worker{}, err
	}
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	s.started++
	s.alive++
	work := s.work
	if work == nil {
		work = honest
	}
	ctx, kill := context.WithCancel(context.Background())
	if s.kills == nil {
		s.kills = map[string]func(){}
	}
	s.kills[r.Run] = kill
	done := make(chan struct{})
	var exit workloop.Exit
	go func() {
		defer close(done)
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.alive--
		}()
		defer theirs.Close()
		stop := context.AfterFunc(ctx, func() { theirs.Close(); inRead.CloseWithError(io.ErrClosedPipe) })
		defer stop()
		text, err := bufio.NewReader(inRead).ReadBytes('\n')
		var h doors.Handoff
		if err == nil && json.Unmarshal(text, &h) == nil {
			var stdout []byte
			stdout, exit = work(ctx, h, theirs)
			_, _ = outWrite.Write(stdout)
		}
		outWrite.Close()
		if ctx.Err() != nil {
			exit = workloop.Exit{Code: -1, Signal: "SIGKILL"}
		}
	}()
	return workloop.Worker{
		PID: 4000 + s.started, Layers: []string{"user", "network"}, Doors: mine, Stdin: inWrite, Stdout: outRead,
		Kill: func() { kill(); outRead.CloseWithError(io.EOF) },
		Wait: func(ctx context.Context) (workloop.Exit, error) {
			select {
			case <-done:
				return exit, nil
			case <-ctx.Done():
				return workloop.Exit{}, ctx.Err()
			}
		},
	}, nil
}

// honest runs the loop as the real worker does.
func honest(ctx context.Context, h doors.Handoff, conn net.Conn) ([]byte, workloop.Exit) {
	claim := loop.Run(ctx, h.Spec, doors.NewClient(conn, h.Credential))
	return claimText(claim), workloop.Exit{}
}

func claimText(c loop.Claim) []byte {
	text, _ := json.Marshal(c)
	return append(text, '\n')
}

func socketPair() (a, b net.Conn, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pair")
		conns[i], err = net.FileConn(file)
		file.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return conns[0], conns[1], nil
}

// model is a provider whose answers a test decides.
type model struct {
	mu     sync.Mutex // guards answer
	answer func(ctx context.Context, r inference.Request, turn int) (inference.Response, error)
}

func (m *model) set(answer func(ctx context.Context, r inference.Request, turn int) (inference.Response, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

func (m *model) Complete(ctx context.Context, r inference.Request, _ func(string)) (inference.Response, error) {
	m.mu.Lock()
	answer := m.answer
	m.mu.Unlock()
	turn := 0
	for _, message := range r.Messages {
		if message.Role == inference.Assistant {
			turn++
		}
	}
	if answer == nil {
		return inference.Echo{}.Complete(ctx, r, nil)
	}
	return answer(ctx, r, turn)
}

// says is an answer in words: it ends a run.
func says(text string) inference.Response {
	return inference.Response{Model: "test", Content: []inference.Block{{Type: inference.Text, Text: text}}, StopReason: inference.EndTurn, InputTokens: 10, OutputTokens: 5}
}

// calls is an answer with tool calls: name, arguments, name, arguments.
func calls(pairs ...string) inference.Response {
	r := inference.Response{Model: "test", StopReason: inference.StopToolUse, InputTokens: 10, OutputTokens: 5}
	for i := 0; i < len(pairs); i += 2 {
		r.Content = append(r.Content, inference.Block{Type: inference.ToolUse, ID: "call_" + string(rune('a'+i)), Name: pairs[i], Input: json.RawMessage(pairs[i+1])})
	}
	return r
}

// steps plays answers by their turn; the last one is repeated.
func steps(answers ...inference.Response) func(context.Context, inference.Request, int) (inference.Response, error) {
	return func(_ context.Context, _ inference.Request, turn int) (inference.Response, error) {
		return answers[min(turn, len(answers)-1)], nil
	}
}

// A rig is an engine with everything around it.
type rig struct {
	t       *testing.T
	log     *record.Log
	engine  *workloop.Engine
	starter *starter
	model   *model
	options workloop.Options
	path    string
	mu      sync.Mutex // guards notices
	notices []workloop.Notice
}

func newRig(t *testing.T, change ...func(*workloop.Options)) *rig {
	t.Helper()
	g := &rig{t: t, starter: &starter{}, model: &model{}, path: filepath.Join(t.TempDir(), "log.db")}
	rules := policy.New(64)
	g.options = workloop.Options{
		Rules: rules, Starter: g.starter, Operator: operator, Capacity: 4, StopGrace: time.Minute,
		Broker: inference.NewBroker(g.model, "test", map[string]inference.Price{"test": {InputPerMTok: 1, OutputPerMTok: 1}}),
		Notify: func(n workloop.Notice) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.notices = append(g.notices, n)
		},
	}
	for _, c := range change {
		c(&g.options)
	}
	g.open()
	t.Cleanup(g.close)
	return g
}

func (g *rig) open() {
	g.t.Helper()
	var err error
	if g.log, err = record.Open(g.path, record.Options{Check: workloop.Check(g.options.Rules)}); err != nil {
		g.t.Fatal(err)
	}
	g.options.Log = g.log
	if g.engine, err = workloop.New(g.t.Context(), g.options); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) close() {
	g.t.Helper()
	if err := g.engine.Close(context.Background()); err != nil {
		g.t.Error(err)
	}
	if _, alive := g.starter.counts(); alive != 0 {
		g.t.Errorf("%d workers are left", alive)
	}
	if err := g.log.Close(); err != nil {
		g.t.Error(err)
	}
}

// hasty makes a run that does not heed a stop be killed soon.
func hasty(o *workloop.Options) { o.StopGrace = 100 * time.Millisecond }

// config writes a configuration record.
func (g *rig) config(body map[string]any) {
	g.t.Helper()
	if _, err := g.log.Append(g.t.Context(), record.Draft{Thread: record.ConfigThread, Actor: record.EngineDID, Act: record.ActLearn, Body: body}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) rule(name, action, expression string) {
	g.t.Helper()
	g.config(map[string]any{"topic": "permission_rule", "name": name, "namespace": "default", "expression": expression, "action": action, "priority": 100, "enabled": true})
}

func (g *rig) start(q workloop.StartRequest) workloop.Started {
	g.t.Helper()
	if q.Goal == "" {
		q.Goal = "do it"
	}
	s, err := g.engine.Start(g.t.Context(), q)
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// outcome waits for the newest outcome of a run that is not among those seen, and returns the row.
func (g *rig) outcome(thread string) workloop.Row {
	g.t.Helper()
	return g.nth(thread, 1)
}

// nth waits for a thread's nth outcome and for the row that goes with it.
func (g *rig) nth(thread string, n int) workloop.Row {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	seen := 0
	for rec, err := range g.log.Watch(ctx, record.WatchQuery{Thread: thread, Kinds: []string{workloop.KindOutcome}}) {
		if err != nil {
			g.t.Fatalf("no outcome %d: %v\n%s", n, err, g.dump(thread))
		}
		if rec.Actor != record.EngineDID {
			continue
		}
		if seen++; seen == n {
			break
		}
	}
	for {
		row, err := g.engine.Run(g.t.Context(), thread)
		if err != nil {
			g.t.Fatal(err)
		}
		if row.State != workloop.Running {
			return row
		}
		if ctx.Err() != nil {
			g.t.Fatal("the row still says running")
		}
		time.Sleep(time.Millisecond)
	}
}

// records returns the records of a thread of a kind; "" is all.
func (g *rig) records(thread, kind string) []record.Record {
	g.t.Helper()
	all, err := g.log.List(context.Background(), record.ListQuery{Thread: thread})
	if err != nil {
		g.t.Fatal(err)
	}
	if kind == "" {
		return all
	}
	return slices.DeleteFunc(all, func(r record.Record) bool { return record.Kind(r) != kind })
}

func (g *rig) dump(thread string) string {
	text := ""
	for _, r := range g.records(thread, "") {
		text += record.Kind(r) + " " + string(r.Body) + "\n"
	}
	return text
}

// body decodes a record's body.
func body(t *testing.T, r record.Record) map[string]any {
	t.Helper()
	var m map[string]any
	if err := r.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func (g *rig) noticed(event string) []workloop.Notice {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.notices), func(n workloop.Notice) bool { return n.Event != event })
}

// refused checks an error's code and status.
func refused(t *testing.T, err error, code string, status int) *loop.Refusal {
	t.Helper()
	refusal, ok := errors.AsType[*loop.Refusal](err)
	if !ok || refusal.Code != code || refusal.Status != status {
		t.Fatalf("error is %v, want %s with %d", err, code, status)
	}
	return refusal
}
