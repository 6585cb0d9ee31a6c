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

	"github.com/oklog/ulid/v2"

	"playground/fault"
)

// Build returns the cohort of a source and a recipe: the one that is there, or a new one. The build's output goes to news as
// well as to the log, as text that a terminal only shows; a failure's text names the log. Two calls for one fingerprint, in one process or
// two, do the work once. A build that fails or is killed leaves its log and no cohort.
func (s *Store) Build(ctx context.Context, host Host, spec Spec, news io.Writer) (Cohort, error) {
	t, err := openTree(spec.Source)
	if err != nil {
		return Cohort{}, err
	}
	defer t.close()
	if err := spec.validate(); err != nil {
		return Cohort{}, err
	}
	recipe, err := t.fingerprint(ctx, &spec, "")
	if err != nil {
		return Cohort{}, err
	}
	fingerprint := recipe
	if spec.Force {
		fingerprint = anew(recipe)
	}
	if c, err := s.reuse(&spec, recipe); err == nil || !errors.Is(err, fault.NotFound) {
		return c, err
	}
	unlock, err := s.lock(ctx, spec.Name, fingerprint, news)
	if err != nil {
		return Cohort{}, err
	}
	defer unlock()
	// Whoever had the lock may have done the work.
	if c, err := s.reuse(&spec, recipe); err == nil || !errors.Is(err, fault.NotFound) {
		return c, err
	}
	if err := ctx.Err(); err != nil {
		return Cohort{}, err
	}
	if err := s.sweep(ctx, host); err != nil {
		fmt.Fprintf(news, "cannot remove what an earlier build left: %v\n", err)
	}
	return s.make(ctx, host, &spec, t, Cohort{Name: spec.Name, Fingerprint: fingerprint, Recipe: recipe}, news)
}

// anew is the name of one more build of a recipe: the builds that there are stay, to go back to.
func anew(recipe string) string {
	sum := sha256.Sum256([]byte("again " + recipe + " " + ulid.Make().String()))
	return hex.EncodeToString(sum[:])
}

// reuse returns the newest cohort of a recipe, or fault.NotFound; always that where the recipe is to be built anew.
func (s *Store) reuse(spec *Spec, recipe string) (Cohort, error) {
	if spec.Force {
		return Cohort{}, fault.New(fault.NotFound, "the build is to be made anew")
	}
	all, err := s.Cohorts(spec.Name)
	if err != nil {
		return Cohort{}, err
	}
	for _, c := range all {
		if c.Damaged == "" && c.Recipe == recipe {
			c.Reused = true
			return c, nil
		}
	}
	return s.load(spec.Name, recipe) // one that is damaged is told, and not built over
}

// make does the work for a cohort, under its fingerprint's lock.
func (s *Store) make(ctx context.Context, host Host, spec *Spec, t tree, c Cohort, news io.Writer) (_ Cohort, err error) {
	dir := s.path(spec.Name, c.Fingerprint)
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
	log := &plain{w: io.MultiWriter(&capped{file, maxLogBytes}, news)}
	fmt.Fprintf(file, "bundle %s, fingerprint %s, builder %s, from %s\n", spec.Name, c.Fingerprint, spec.Builder, spec.Source)
	defer func() {
		if err != nil {
			fmt.Fprintf(&plain{w: file}, "\n%v\n", err)
			err = fault.Wrap(fault.KindOf(err), err, "cannot build bundle %q", spec.Name).WithHint("%s", hintFor(spec, err, logPath))
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
	if err := b.fill(ctx, spec, t, c.Recipe, log); err != nil {
		return Cohort{}, err
	}
	if err := b.start(ctx, spec.Network); err != nil {
		return Cohort{}, err
	}
	if err := b.run(ctx, spec, log); err != nil {
		return Cohort{}, err
	}
	c.Dir = dir
	return b.stage(ctx, spec, c)
}

// hintFor is the next step after a failed build.
func hintFor(spec *Spec, err error, logPath string) string {
	if errors.Is(err, errBuild) && spec.Builder != BuilderCommand && !spec.Network && !spec.Vendor {
		return "read " + logPath + "; where dependencies are missing, --vendor fetches them first"
	}
	if hint := fault.HintOf(err); hint != "" {
		return hint + "; for more, read " + logPath
	}
	return "read " + logPath
}

// fill copies the source into the builder's folder, and its dependencies.
func (b *builder) fill(ctx context.Context, spec *Spec, t tree, recipe string, log io.Writer) error {
	seen, err := t.fingerprint(ctx, spec, b.source)
	if err != nil {
		return err
	}
	if seen != recipe {
		return fault.New(fault.Busy, "the source %q changed while it was read", spec.Source).WithHint("build again when nobody writes to it")
	}
	if spec.Vendor {
		return vendor(ctx, spec.Builder, b.source, log)
	}
	return nil
}

// stage takes the executables out and completes the cohort: the stamp comes last, when all else is on disk.
func (b *builder) stage(ctx context.Context, spec *Spec, c Cohort) (Cohort, error) {
	names := slices.Sorted(maps.Keys(spec.Binaries))
	sizes, err := b.sizes(ctx, names)
	if err != nil {
		return Cohort{}, err
	}
	for _, name := range names {
		path := filepath.Join(c.Dir, name)
		if err := b.take(ctx, name, sizes[name], path); err != nil {
			return Cohort{}, err
		}
		one, err := describe(name, path)
		if err != nil {
			return Cohort{}, err
		}
		c.Binaries = append(c.Binaries, one)
	}
	c.Built = time.Now().UTC().Truncate(time.Millisecond)
	facts, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return Cohort{}, err
	}
	if err := writeSynced(filepath.Join(c.Dir, factsFile), append(facts, '\n'), 0o644); err != nil {
		return Cohort{}, err
	}
	if err := writeSynced(filepath.Join(c.Dir, stampFile), []byte(c.Fingerprint+"\n"), 0o444); err != nil {
		return Cohort{}, err
	}
	return c, syncDir(filepath.Dir(c.Dir))
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
