package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"playground/inference"
	"playground/policy"
	"playground/record"
	"playground/workloop"
	"playground/workloop/doors"
	"playground/workloop/loop"
)

// The ways of a tool call. A call that nobody judges must be recorded, too.
const (
	wayRecorded = "recorded"
	wayVerdict  = "verdict"
	wayRules    = "verdict-10-rules"
)

// measureVerdicts times the kernel's judgement of a tool call as a worker sees it: over its door, call and verdict on the disk.
func measureVerdicts(ctx context.Context, dir string, o Options) ([]WorkRow, error) {
	var cells []*cell
	for _, test := range []struct {
		name, words string
		rules       int
	}{{wayVerdict, "a call and its verdict, no rules", 0}, {wayRules, "a call and its verdict, 10 rules", 10}} {
		b, err := newTrial(ctx, filepath.Join(dir, test.name+".db"), test.rules)
		if err != nil {
			return nil, err
		}
		defer b.close()
		if cells == nil {
			cells = append(cells, &cell{load: 1, way: way{name: wayRecorded, words: "a record of a worker's, on disk (floor)", call: b.mark, after: b.count}})
		}
		cells = append(cells, &cell{load: 1, way: way{name: test.name, words: test.words, call: b.propose, after: b.result}})
	}
	if err := takeTurns(ctx, cells, o, "verdicts", o.Time/12); err != nil {
		return nil, err
	}
	return workRows(cells, wayRecorded), nil
}

// A trial is an engine with one run, whose worker is this program at the other end of the real doors.
type trial struct {
	log    *record.Log
	engine *workloop.Engine
	kernel *doors.Client
	calls  int
	call   string // the record of the last call
}

// newTrial starts a run under a number of rules that deny nothing.
func newTrial(ctx context.Context, path string, rules int) (_ *trial, err error) {
	evaluator := policy.New(64)
	b := &trial{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.log, err = record.Open(path, record.Options{Check: workloop.Check(evaluator)}); err != nil {
		return nil, err
	}
	bodies := []map[string]any{{"topic": "work_loop_transport", "transport": "sandboxed"}}
	for i := range rules {
		bodies = append(bodies, map[string]any{"topic": "permission_rule", "name": fmt.Sprint("rule-", i), "action": "deny", "priority": i, "enabled": true,
			"expression": fmt.Sprintf(`resource == "tool:record_note" && record.body.args.text.contains("x%d")`, i)})
	}
	for _, body := range bodies {
		if _, err := b.log.Append(ctx, record.Draft{Thread: record.ConfigThread, Actor: record.EngineDID, Act: record.ActLearn, Body: body}); err != nil {
			return nil, err
		}
	}
	starter := &looseStarter{handed: make(chan handed, 1)}
	const operator = "did:sync:user:operator"
	b.engine, err = workloop.New(ctx, workloop.Options{Log: b.log, Rules: evaluator, Starter: starter, Operator: operator,
		Broker: inference.NewBroker(talker{}, inference.ScriptedModel, inference.Prices())})
	if err != nil {
		return nil, err
	}
	if _, err := b.engine.Start(ctx, workloop.StartRequest{Goal: "be measured", Caller: operator}); err != nil {
		return nil, err
	}
	h := <-starter.handed
	b.kernel = doors.NewClient(h.conn, h.credential)
	return b, b.turn(ctx)
}

func (b *trial) close() {
	if b.kernel != nil {
		_ = b.kernel.Close() // the worker is gone with it
	}
	if b.engine != nil {
		_ = b.engine.Close(context.Background()) // of an engine that is thrown away
	}
	if b.log != nil {
		_ = b.log.Close()
	}
}

// turn asks the model; only what it answers may be followed by calls.
func (b *trial) turn(ctx context.Context) error {
	_, err := b.kernel.Complete(ctx, inference.Request{MaxTokens: 16, Messages: []inference.Message{{Role: inference.User, Content: []inference.Block{{Type: inference.Text, Text: "go on"}}}}})
	return err
}

// mark writes a record that no call has to ask for.
func (b *trial) mark(ctx context.Context, _ int) error {
	_, err := b.kernel.Append(ctx, loop.Entry{Kind: loop.KindGuardrail, Act: record.ActKnow, Body: loop.GuardrailBody{Verdict: loop.GuardrailVerdictBlock, Tool: noteText}})
	return err
}

// note writes the note of an allowed call.
func (b *trial) note(ctx context.Context) error {
	_, err := b.kernel.Append(ctx, loop.Entry{Kind: loop.KindNote, Act: record.ActKnow, Body: map[string]string{"text": noteText}})
	return err
}

// propose has one call judged.
func (b *trial) propose(ctx context.Context, _ int) error {
	v, err := b.kernel.Propose(ctx, loop.Proposal{CallID: fmt.Sprint("call_", b.calls), Tool: loop.ToolRecordNote, Args: json.RawMessage(fmt.Sprintf(`{"text":"note %d"}`, b.calls))})
	if err == nil && v.Decision != loop.Allow {
		err = fmt.Errorf("a call was answered with %q: %s", v.Decision, v.Reason)
	}
	b.call = v.Call
	return err
}

// result does what was called and says so.
func (b *trial) result(ctx context.Context, _ int) error {
	if err := b.note(ctx); err != nil {
		return err
	}
	_, err := b.kernel.Append(ctx, loop.Entry{Kind: loop.KindToolResult, Act: record.ActKnow, Body: loop.ToolResultBody{Fulfills: b.call, Tool: loop.ToolRecordNote, Status: loop.StatusOK}})
	if err != nil {
		return err
	}
	return b.count(ctx, 0)
}

// count begins the next turn now and then: no reply may be followed by very much.
func (b *trial) count(ctx context.Context, _ int) error {
	if b.calls++; b.calls%64 != 0 {
		return nil
	}
	return b.turn(ctx)
}

// A talker is a model that calls a tool for ever.
type talker struct{}

// Complete implements inference.Provider.
func (talker) Complete(context.Context, inference.Request, func(string)) (inference.Response, error) {
	return inference.Response{Model: inference.ScriptedModel, StopReason: inference.StopToolUse, Content: []inference.Block{
		{Type: inference.ToolUse, ID: "call", Name: loop.ToolRecordNote, Input: json.RawMessage(`{"text":"x"}`)}}}, nil
}

// A looseStarter stands in for reaperd: the worker is this program, which nothing confines. Only the doors are real.
type looseStarter struct{ handed chan handed }

// handed is what a worker is told.
type handed struct {
	conn       net.Conn
	credential string
}

// Start implements workloop.Starter.
func (s *looseStarter) Start(context.Context, workloop.WorkerRequest) (workloop.Worker, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return workloop.Worker{}, err
	}
	told, stdin := io.Pipe()
	stdout, claim := io.Pipe()
	gone, kill := context.WithCancel(context.Background())
	go func() {
		var h doors.Handoff
		line, err := bufio.NewReader(told).ReadBytes('\n')
		if err == nil && json.Unmarshal(line, &h) == nil {
			s.handed <- handed{theirs, h.Credential}
		}
	}()
	return workloop.Worker{PID: os.Getpid(), Layers: []string{"none"}, Doors: ours, Stdin: stdin, Stdout: stdout,
		Kill: func() { kill(); _ = claim.CloseWithError(io.EOF); _ = told.Close() },
		Wait: func(ctx context.Context) (workloop.Exit, error) {
			select {
			case <-gone.Done():
				return workloop.Exit{Signal: "SIGKILL"}, nil
			case <-ctx.Done():
				return workloop.Exit{}, ctx.Err()
			}
		}}, nil
}

// socketPair returns both ends of a connection like the one that a worker inherits.
func socketPair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "doors")
		conn, connErr := net.FileConn(file)
		err = errors.Join(err, connErr, file.Close())
		conns[i] = conn
	}
	return conns[0], conns[1], err
}
