package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"playground/config"
	"playground/confine"
	"playground/confine/keeper"
	"playground/fault"
	"playground/job"
	"playground/localapi/workerapi"
	"playground/procfs"
	"playground/reaper"
)

// idle runs nothing.
type idle struct{}

func (idle) Run(context.Context, job.Spec, job.Output) (job.Result, error) {
	return job.Result{}, errors.New("nothing is run here")
}

// TestLostWorker: a worker whose end is not proved closes admission for commands and workers alike, over a restart too.
func TestLostWorker(t *testing.T) {
	cfg := config.Default("linux")
	cfg.Host.RunDir = t.TempDir()
	store := reaper.LostFile(filepath.Join(t.TempDir(), "lost-proof.json"))
	manager := job.NewManager(idle{}, cfg.JobLimits(), store)
	if keeper.Limit != config.MaxWorkers || keeper.IDs != config.WorkerIDs {
		t.Errorf("%d workers and %d ids, configured are %d and %d", keeper.Limit, keeper.IDs, config.MaxWorkers, config.WorkerIDs)
	}
	o := workerOptions(cfg, manager, zerolog.Nop())
	if err := o.Admit(); err != nil {
		t.Fatal(err)
	}
	if o.Bounds.DataBytes != 512<<20 || o.Bounds.CPUSeconds != 3600 || o.UIDBase != 990_000 {
		t.Errorf("options %+v", o)
	}
	o.Lost([]confine.Leftover{{PID: 4321, Start: 7}}, "it does not end")
	if err := o.Admit(); !errors.Is(err, fault.ProofLost) {
		t.Errorf("a worker is admitted: %v", err)
	}
	record, err := store.Load()
	if err != nil || record == nil || len(record.Pids) != 1 || record.Pids[0] != (job.Leftover{Pid: 4321, Start: 7}) || !strings.Contains(record.Reason, "worker: it does not end") {
		t.Errorf("record %+v, %v", record, err)
	}
	later := job.NewManager(idle{}, cfg.JobLimits(), store)
	if err := workerOptions(cfg, later, zerolog.Nop()).Admit(); !errors.Is(err, fault.ProofLost) {
		t.Errorf("after a restart: %v", err)
	}
	if err := later.Ack(); err != nil {
		t.Fatal(err)
	}
	if err := workerOptions(cfg, later, zerolog.Nop()).Admit(); err != nil {
		t.Errorf("after the operator's word: %v", err)
	}
}

// TestNoted: a worker is written down while it lives.
func TestNoted(t *testing.T) {
	dir := t.TempDir()
	if _, err := journal(dir).Recover(0); err != nil {
		t.Fatal(err)
	}
	cross, err := journal(dir).Note(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if left, err := journal(dir).Recover(0); err != nil || len(left) != 1 || left[0].Pid != os.Getpid() {
		t.Errorf("left %v, %v", left, err)
	}
	cross()
	if left, err := journal(dir).Recover(0); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestLogWorker(t *testing.T) {
	var out bytes.Buffer
	log := zerolog.New(&out)
	logWorker(log, keeper.Event{Kind: keeper.Started, Run: "th_1", PID: 7, Took: time.Second})
	logWorker(log, keeper.Event{Kind: keeper.Ended, Run: "th_1", PID: 7, Exit: confine.Exit{Status: 2, Cleanup: confine.Cleanup{Proven: true}}, Text: `"panic"`})
	logWorker(log, keeper.Event{Kind: keeper.Refused, Run: "th_2", Err: errors.New("no")})
	for _, want := range []string{`"message":"worker_started"`, `"pid":7`, `"message":"worker_ended"`, `"exit":2`, `"proven":true`, `"message":"worker_refused"`, `"error":"no"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}

// A lineLog keeps what a daemon logs.
type lineLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestDaemon: the programs themselves, from a start to the daemon's stop, which ends the worker.
func TestDaemon(t *testing.T) {
	bin := os.Getenv("PLAYGROUND_BIN")
	if bin == "" {
		t.Skip("PLAYGROUND_BIN is not set")
	}
	dir, err := os.MkdirTemp("", "rd")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "c.toml")
	text := fmt.Sprintf("[host]\nstate_dir = %q\nrun_dir = %q\nlibexec_dir = %q\n", dir+"/s", dir+"/r", bin)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log lineLog
	daemon := exec.Command(filepath.Join(bin, "playground-reaperd"), "-c", file)
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill()
	client := workerapi.NewClient(dir + "/r/reaperd.sock")
	var worker *workerapi.Worker
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if worker, err = client.Start(t.Context(), workerapi.Request{Run: "th_1"}); !errors.Is(err, fault.Unavailable) || time.Now().After(until) {
			break
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if err := worker.Report.Err(); err != nil {
		t.Error(err)
	}
	if parent, ok := procfs.Parent(worker.PID); !ok || parent != daemon.Process.Pid {
		t.Errorf("its parent is %d, the daemon is %d", parent, daemon.Process.Pid)
	}
	for until := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), fmt.Sprintf(`"pid":%d`, worker.PID)); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the log does not name it:\n%s", log.String())
		}
	}
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exit, err := worker.Wait(t.Context())
	if err != nil || exit.Signal != "SIGKILL" || !exit.Cleanup.Proven {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	var last struct{ Message string }
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Errorf("%v: %s", err, lines[len(lines)-1])
	}
	if !strings.Contains(log.String(), "worker_ended") {
		t.Errorf("no end in the log:\n%s", log.String())
	}
}
