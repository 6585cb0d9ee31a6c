package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A world is the suite under test and what was made in it.
type world struct {
	options options
	report  *report
	host    host
	made    []*tenant
	mark    string // ends the tenants' names, so that they are nobody else's
}

// limit is a time limit for this host.
func (w *world) limit(d time.Duration) time.Duration {
	return time.Duration(float64(d) * w.options.patience)
}

// programTime is how long a program of the host may take that the play runs, and toolTime what the operator's tool may: it
// also builds a faculty and makes every attempt to escape.
const (
	programTime = 3 * time.Minute
	toolTime    = 15 * time.Minute
	stepTime    = 20 * time.Minute // of a play, whatever it waits for
)

// within bounds a program's time.
func (w *world) within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	most = w.limit(most)
	return context.WithTimeoutCause(ctx, most, fmt.Errorf("no end within %v", most))
}

// steps makes the steps of a play one after the other, until one ends with an error.
func (w *world) steps(ctx context.Context, list ...func(context.Context) error) error {
	for _, step := range list {
		limited, cancel := w.within(ctx, stepTime)
		err := whyEnded(limited, step(limited))
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// operator runs the operator's tool and decodes its JSON into v.
func (w *world) operator(ctx context.Context, v any, args ...string) error {
	ctx, cancel := w.within(ctx, toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.options.cli, append([]string{"-c", w.options.config, "-o", "json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if v != nil { // what is printed and then judged with a status is looked at all the same
			_ = json.Unmarshal(stdout.Bytes(), v)
		}
		return fmt.Errorf("cannot run playground %s: %w: %s", strings.Join(args, " "), whyEnded(ctx, err), strings.TrimSpace(stderr.String()))
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(stdout.Bytes(), v); err != nil {
		return fmt.Errorf("cannot read what playground %s printed: %w: %.200q", strings.Join(args, " "), err, stdout.String())
	}
	return nil
}

// A created is what "playground user create" prints.
type created struct {
	User struct {
		Sandbox struct {
			Name, Persona, Isolation, Network, Address string
		}
	}
	Token string
}

// provision makes a tenant, with options of "playground user create", and does not connect to it.
func (w *world) provision(ctx context.Context, name string, options ...string) (created, error) {
	var c created
	name = name + "-" + w.mark
	w.made = append(w.made, &tenant{name: name, most: w.limit(answerTime)}) // also what fails half way is destroyed
	err := w.operator(ctx, &c, append([]string{"user", "create", name}, options...)...)
	return c, err
}

// tenant makes a tenant, connects its client and opens its session.
func (w *world) tenant(ctx context.Context, name string) (*tenant, error) {
	c, err := w.provision(ctx, name)
	if err != nil {
		return nil, err
	}
	t := w.made[len(w.made)-1]
	t.created = c
	if err := t.connect(ctx, w.options.endpoint, c.Token); err != nil {
		return nil, err
	}
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// close destroys the tenants that were made, and says so.
func (w *world) close(ctx context.Context) {
	var wrong []string
	made := len(w.made)
	for _, t := range w.made {
		t.hangUp()
		if err := w.operator(ctx, nil, "user", "destroy", "--force", t.name); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", t.name, err))
		}
	}
	w.made = nil
	if made > 0 {
		w.report.check(len(wrong) == 0, w.options.command[0]+": its tenants are destroyed", fmt.Sprintf("%d tenants", made), "%d destroyed %s",
			made-len(wrong), strings.Join(wrong, "; "))
	}
}

// A status is what "playground status" prints.
type status struct {
	Daemons []struct {
		Name, State string
		Pid         int
	}
	Lost       json.RawMessage `json:"lost"`
	ActiveJobs int             `json:"active_jobs"`
}

// pid returns a daemon's process, 0 if it is down.
func (s status) pid(name string) int {
	for _, d := range s.Daemons {
		if d.Name == name && d.State == "up" {
			return d.Pid
		}
	}
	return 0
}

// status asks also where the answer is that something is down: then the tool prints it and fails.
func (w *world) status(ctx context.Context) (status, error) {
	var s status
	ctx, cancel := w.within(ctx, programTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.options.cli, "-c", w.options.config, "-o", "json", "status")
	out, err := cmd.Output()
	if jsonErr := json.Unmarshal(out, &s); jsonErr != nil {
		return s, fmt.Errorf("cannot ask for the status: %w", whyEnded(ctx, cmp.Or(err, jsonErr)))
	}
	return s, nil
}

// mendProof looks whether the suite lost a proof. It says so as a failed check and acknowledges it, so that the checks after it
// say something of their own.
func (w *world) mendProof(ctx context.Context, after string) {
	s, err := w.status(ctx)
	if err != nil || len(s.Lost) == 0 || string(s.Lost) == "null" {
		return
	}
	w.report.check(false, after+": proof is not lost", "nothing in status", "%s", s.Lost)
	if err := w.operator(ctx, nil, "ack"); err != nil {
		w.report.note("playground ack: %v", err)
	}
}

// place writes the adversary into a tenant's sandbox.
func (w *world) place(ctx context.Context, t *tenant) error {
	program, err := os.ReadFile(w.options.adversary)
	if err != nil {
		return fmt.Errorf("cannot read the adversary: %w", err)
	}
	a, err := t.call(ctx, "write", map[string]any{"path": adversaryPath, "base64": base64.StdEncoding.EncodeToString(program)})
	if err == nil && a.IsError {
		err = fmt.Errorf("cannot place the adversary: %s", a.Text)
	}
	if err != nil {
		return err
	}
	e, a, err := t.exec(ctx, "chmod 0755 "+adversaryPath+" && "+adversaryPath)
	if err == nil && !e.exited(0) {
		err = fmt.Errorf("the adversary does not run: %s", a.Text)
	}
	return err
}

// adversaryPath is in the sandbox; the file's name is what ps(1) shows of every process of it.
const (
	adversaryName = "pgadversary"
	adversaryPath = "/workspace/" + adversaryName
)
