package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"playground/cli"
	"playground/faculty"
	"playground/faculty/bundle"
	"playground/fault"
)

// buildTime bounds the build: it fetches modules, then compiles them and all that they stand on anew.
const buildTime = 4 * time.Minute

const (
	third    = "mary"             // the tenant that has a faculty
	notebook = "faculty-notebook" // the example, its bundle and its executable
)

// The newest protocol version of each era.
const (
	stateless = "2026-07-28"
	sessions  = "2025-11-25"
)

// buildFaculty builds the example and puts it into a tenant's sandbox.
func (d *demo) buildFaculty(ctx context.Context) error {
	d.t.title("A faculty, built from its source in a sandbox that is thrown away")
	source, why := d.source()
	if why != "" {
		d.t.notShown(why, "a faculty is built, installed, kept and served")
		return nil
	}
	if err := d.tenant(ctx, third, workerNetwork); err != nil {
		return err
	}
	var built bundle.Cohort
	var log bytes.Buffer
	began := time.Now()
	d.t.note("the host's go fetches what it is made of; the build itself has no network")
	limited, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	err := d.operator(limited, "faculty build "+source+" --vendor", func(e *cli.Env, ctx context.Context) error {
		e.Stderr = &log
		return e.FacultyBuild(ctx, cli.BundleSpec{Source: source, Name: notebook, Vendor: true})
	}, &built)
	why = outOfReach(err, log.String())
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		why = fmt.Sprintf("it was not built within %v", buildTime)
	}
	if why != "" {
		d.t.notShown(why, "a faculty is built, installed, kept and served")
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	var made []string
	for _, b := range built.Binaries {
		made = append(made, fmt.Sprintf("%s: %d bytes, sha256 %.16s...", b.Name, b.Size, b.SHA256))
	}
	d.t.answered(fmt.Sprintf("bundle %s@%.12s\n%s", built.Name, built.Fingerprint, strings.Join(made, "\n")), time.Since(began))
	d.t.check(len(built.Binaries) == 1 && built.Binaries[0].Name == notebook && !built.Reused, "exactly the executable that was asked for came out")
	var installed []bundle.Installation
	began = time.Now()
	err = d.operator(ctx, "faculty install "+notebook+" "+third, func(e *cli.Env, ctx context.Context) error {
		return e.FacultyInstall(ctx, notebook, []string{third})
	}, &installed)
	if err != nil {
		return err
	}
	d.t.answered(bundle.Home(third, notebook)+"/"+notebook, time.Since(began))
	d.faculty = d.t.check(len(installed) == 1 && installed[0].Current == built.Fingerprint, "it is in %s's sandbox, put there from inside", third)
	return nil
}

// source finds the example, beside the programs or in this folder. It says why there is nothing to build.
func (d *demo) source() (dir, why string) {
	if !d.isolated {
		return "", noIsolation
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", "there is no go in PATH"
	}
	for _, dir := range []string{filepath.Join(d.env.Bin, "..", "examples", notebook), filepath.Join("examples", notebook)} {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, ""
		}
	}
	return "", "the source of examples/" + notebook + " is neither beside the programs nor in this folder"
}

// outOfReach says what a build had need of and this host does not have. "" is no such thing.
func outOfReach(err error, log string) string {
	const noGo = "there is no go in this sandbox's PATH"
	switch {
	case err == nil:
		return ""
	case strings.Contains(log, noGo):
		return noGo
	case errors.Is(err, fault.Unavailable) && strings.Contains(err.Error(), "cannot fetch the dependencies"):
		lines := strings.Split(strings.TrimSpace(log), "\n")
		return "its modules are out of reach: " + strings.TrimSpace(lines[len(lines)-1])
	}
	return ""
}

// serveFaculty uses the worker as a client does, with both eras of the protocol.
func (d *demo) serveFaculty(ctx context.Context) error {
	if !d.faculty {
		return nil // it was told when it could not be built
	}
	d.t.title("A faculty worker, behind the same address and the same token")
	d.t.asked("$", "playground faculty list")
	began := time.Now()
	var w faculty.Worker
	healthy, err := eventually(ctx, func() (bool, error) {
		var err error
		w, err = d.listed(ctx)
		return w.State == faculty.Running && w.Health != nil && w.Health.OK, err
	})
	if err != nil {
		return err
	}
	d.t.answered(fmt.Sprintf("%s is %s, as process %d, at %s", w.ID, w.State, w.Pid, w.Address), time.Since(began))
	if !d.t.check(healthy, "it runs inside %s's sandbox and answers: %d tools", third, deref(w.Health).Tools) {
		return fmt.Errorf("the faculty worker does not serve: %s", w.Problem)
	}
	for i, era := range []string{stateless, sessions} {
		c, err := d.overHTTP(ctx, third, era)
		if err != nil {
			return err
		}
		if err := d.takeNote(ctx, c, i+1); err != nil {
			return err
		}
	}
	began = time.Now()
	_, err = d.overHTTP(ctx, first, stateless)
	d.t.answered(fmt.Sprint(err), time.Since(began))
	d.t.check(err != nil, "a tenant without a worker reaches nobody else's")
	return nil
}

// takeNote adds a note and finds all that were taken.
func (d *demo) takeNote(ctx context.Context, c *client, number int) error {
	list, err := c.session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	d.t.check(slices.Equal(names, []string{"append_note", "search_notes"}), "its tools are those of its worker: %s", strings.Join(names, ", "))
	added, err := c.call(ctx, "append_note", map[string]any{"text": fmt.Sprintf("tea is at %d", number+3)})
	if err != nil {
		return err
	}
	found, err := c.call(ctx, "search_notes", map[string]any{"query": "tea"})
	if err != nil {
		return err
	}
	var notes struct {
		Total int
		Notes []struct{ Text, Author string }
	}
	found.Into(&notes)
	ok := !added.IsError && !found.IsError && notes.Total == number && len(notes.Notes) == number && notes.Notes[0].Author == third+" assistant"
	d.t.check(ok, "notes in %s's pile: %d", third, notes.Total)
	return nil
}

// listed is the worker as "playground faculty list" tells of it, which fails while the worker does not serve.
func (d *demo) listed(ctx context.Context) (faculty.Worker, error) {
	var out bytes.Buffer
	env := d.env
	env.JSON, env.Stdout = true, &out
	err := env.FacultyList(ctx)
	if _, ok := errors.AsType[cli.StatusError](err); err != nil && !ok {
		return faculty.Worker{}, err
	}
	return only(out.Bytes())
}

// only is the one worker of a listing.
func only(text []byte) (faculty.Worker, error) {
	var listing faculty.Listing
	if err := json.Unmarshal(text, &listing); err != nil {
		return faculty.Worker{}, fmt.Errorf("cannot read the list of workers: %w", err)
	}
	if len(listing.Workers) != 1 {
		return faculty.Worker{}, fmt.Errorf("there are %d workers, not 1", len(listing.Workers))
	}
	return listing.Workers[0], nil
}

// stopFaculty stops the worker.
func (d *demo) stopFaculty(ctx context.Context) error {
	if !d.faculty {
		return nil
	}
	d.t.title("The worker is stopped, and proved to be gone")
	before, err := d.listed(ctx)
	if err != nil {
		return err
	}
	was, known := alive(before.Pid)
	var listing json.RawMessage
	began := time.Now()
	err = d.operator(ctx, "faculty stop "+third, func(e *cli.Env, ctx context.Context) error {
		return e.FacultyStop(ctx, cli.FacultyTarget{Worker: third})
	}, &listing)
	if err != nil {
		return err
	}
	w, err := only(listing)
	if err != nil {
		return err
	}
	exit := deref(w.LastExit)
	d.t.answered(fmt.Sprintf("%s: %s; its end: %s", w.ID, w.State, exit.String()), time.Since(began))
	r := exit.Result.Cleanup
	d.t.check(w.State == faculty.Stopped && r.Proven && r.Survivors == 0, "the receipt: %d killed, %d survivors, proven: %v", r.Killed, r.Survivors, r.Proven)
	if known {
		is, _ := alive(before.Pid)
		d.t.check(was && !is, "the host's own process list agrees: process %d is gone", before.Pid)
	}
	began = time.Now()
	_, err = d.overHTTP(ctx, third, stateless)
	d.t.answered(fmt.Sprint(err), time.Since(began))
	d.t.check(err != nil, "its client is told that nobody answers; nothing else takes its place")
	return nil
}
