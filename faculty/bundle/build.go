package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"playground/fault"
)

// Build returns the cohort of a source and a recipe: the one that is there, or a new one. The build's output goes to news as
// well as to the log, whose place a failure's text names. Two calls for one fingerprint, in one process or two, do the work once. A build that
// fails or is killed leaves its log and no cohort.
func (s *Store) Build(ctx context.Context, host Host, spec Spec, news io.Writer) (Cohort, error) {
	if err := spec.validate(); err != nil {
		return Cohort{}, err
	}
	t, err := openTree(spec.Source)
	if err != nil {
		return Cohort{}, err
	}
	defer t.close()
	fingerprint, err := t.fingerprint(ctx, &spec, "")
	if err != nil {
		return Cohort{}, err
	}
	if c, err := s.reuse(spec.Name, fingerprint); err == nil || !errors.Is(err, fault.NotFound) {
		return c, err
	}
	unlock, err := s.lock(ctx, spec.Name, fingerprint, news)
	if err != nil {
		return Cohort{}, err
	}
	defer unlock()
	// Whoever had the lock may have done the work.
	if c, err := s.reuse(spec.Name, fingerprint); err == nil || !errors.Is(err, fault.NotFound) {
		return c, err
	}
	if err := ctx.Err(); err != nil {
		return Cohort{}, err
	}
	if err := s.sweep(ctx, host); err != nil {
		fmt.Fprintf(news, "cannot remove what an earlier build left: %v\n", err)
	}
	return s.make(ctx, host, &spec, t, fingerprint, news)
}

func (s *Store) reuse(name, fingerprint string) (Cohort, error) {
	c, err := s.load(name, fingerprint)
	c.Reused = true
	return c, err
}

// make does the work, under the fingerprint's lock.
func (s *Store) make(ctx context.Context, host Host, spec *Spec, t tree, fingerprint string, news io.Writer) (c Cohort, err error) {
	dir := s.path(spec.Name, fingerprint)
	if err := os.RemoveAll(dir); err != nil { // what a failed build left
		return Cohort{}, fault.Wrap(fault.Unavailable, err, "cannot begin the build")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return Cohort{}, fault.Wrap(fault.Unavailable, err, "cannot begin the build")
	}
	logPath := filepath.Join(dir, logFile)
	file, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return Cohort{}, fault.Wrap(fault.Unavailable, err, "cannot begin the build")
	}
	log := io.MultiWriter(&capped{file, maxLogBytes}, news)
	fmt.Fprintf(file, "bundle %s, fingerprint %s, builder %s, from %s\n", spec.Name, fingerprint, spec.Builder, spec.Source)
	defer func() {
		if err != nil {
			fmt.Fprintf(file, "\n%v\n", err)
			err = fault.Wrap(fault.KindOf(err), err, "cannot build bundle %q", spec.Name).WithHint("%s", hintFor(err, logPath))
		}
		_ = errors.Join(file.Sync(), file.Close()) // the log of a build is no part of it
	}()
	b, err := s.newBuilder(host)
	if err != nil {
		return Cohort{}, err
	}
	defer func() {
		if endErr := b.end(ctx); endErr != nil { // the next build tries again
			fmt.Fprintf(news, "cannot remove the build's sandbox: %v\n", endErr)
		}
	}()
	if err := b.fill(ctx, spec, t, fingerprint, log); err != nil {
		return Cohort{}, err
	}
	if err := b.start(ctx, spec.Network); err != nil {
		return Cohort{}, err
	}
	if err := b.run(ctx, spec, log); err != nil {
		return Cohort{}, err
	}
	return b.stage(ctx, spec, dir, fingerprint)
}

// hintFor is the next step after a failed build.
func hintFor(err error, logPath string) string {
	if hint := fault.HintOf(err); hint != "" {
		return hint + "; for more, read " + logPath
	}
	return "read " + logPath
}

// A capped writer writes no more than left bytes and drops the rest: a build may print for ever.
type capped struct {
	w    io.Writer
	left int
}

// Write implements io.Writer.
func (c *capped) Write(p []byte) (int, error) {
	if c.left == 0 {
		return len(p), nil
	}
	n := min(len(p), c.left)
	if _, err := c.w.Write(p[:n]); err != nil {
		return 0, err
	}
	if c.left -= n; c.left == 0 {
		fmt.Fprint(c.w, "\n[the log is full: more is not kept]\n")
	}
	return len(p), nil
}

// fill copies the source into the builder's folder, and its dependencies.
func (b *builder) fill(ctx context.Context, spec *Spec, t tree, fingerprint string, log io.Writer) error {
	seen, err := t.fingerprint(ctx, spec, b.source)
	if err != nil {
		return err
	}
	if seen != fingerprint {
		return fault.New(fault.Busy, "the source %q changed while it was read", spec.Source).WithHint("build again when nobody writes to it")
	}
	if spec.Vendor {
		return vendor(ctx, spec.Builder, b.source, log)
	}
	return nil
}

// stage takes the executables out and completes the cohort: the stamp comes last, when all else is on disk.
func (b *builder) stage(ctx context.Context, spec *Spec, dir, fingerprint string) (Cohort, error) {
	c := Cohort{Name: spec.Name, Fingerprint: fingerprint, Built: time.Now().UTC().Truncate(time.Millisecond), Dir: dir}
	for _, name := range slices.Sorted(maps.Keys(spec.Binaries)) {
		path := filepath.Join(dir, name)
		if err := b.take(ctx, name, path); err != nil {
			return Cohort{}, err
		}
		one, err := describe(name, path)
		if err != nil {
			return Cohort{}, err
		}
		c.Binaries = append(c.Binaries, one)
	}
	facts, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return Cohort{}, err
	}
	if err := writeSynced(filepath.Join(dir, factsFile), append(facts, '\n'), 0o644); err != nil {
		return Cohort{}, err
	}
	if err := writeSynced(filepath.Join(dir, stampFile), []byte(fingerprint+"\n"), 0o444); err != nil {
		return Cohort{}, err
	}
	return c, syncDir(filepath.Dir(dir))
}

// describe measures an executable.
func describe(name, path string) (Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return Binary{}, err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return Binary{}, err
	}
	return Binary{Name: name, Size: size, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}
