package bundle

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"playground/fault"
	"playground/internal/sandboxtest"
	"playground/jail"
	"playground/job"
	"playground/reaper"
)

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }

// manager is Jobs over a real job manager.
type manager struct{ *job.Manager }

func (m manager) Start(_ context.Context, spec job.Spec) (job.Status, error) {
	return m.Manager.Start(spec)
}

// A place is a store and the sandboxes that it builds in.
type place struct {
	*Store
	host  Host
	boxes *sandboxtest.Host
}

func newPlace(t *testing.T) place {
	t.Helper()
	boxes := sandboxtest.New(t)
	boxes.Tenant(t, "alice", jail.NetworkNone) // also finds out whether this host can
	jobs := job.NewManager(boxes.Runner, job.DefaultLimits(), reaper.LostFile(filepath.Join(boxes.State, "lost.json")))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := jobs.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	store, err := Open(filepath.Join(boxes.State, "bundles"), filepath.Join(boxes.State, jail.SourceFolder))
	if err != nil {
		t.Fatal(err)
	}
	return place{store, Host{Sandboxes: boxes.Manager, Jobs: manager{jobs}, Open: jail.NetworkHost, ChunkSize: 1 << 20}, boxes}
}

func TestBuildReuseInstallRollback(t *testing.T) {
	p := newPlace(t)
	dir := source(t, map[string]string{"tool.sh*": "#!/bin/sh\necho one\n", "sub/other": "x"})
	build := func() Cohort {
		t.Helper()
		var log bytes.Buffer
		c, err := p.Build(t.Context(), p.host, command(dir, `cp tool.sh "$OUT/tool"; cp tool.sh "$OUT/extra"; echo made`), &log)
		if err != nil {
			t.Fatalf("%v\n%s", err, log.String())
		}
		return c
	}
	one := build()
	if again := build(); !again.Reused || again.Fingerprint != one.Fingerprint || one.Reused {
		t.Errorf("first %+v, second %+v", one, again)
	}
	if _, err := os.Lstat(filepath.Join(one.Dir, "extra")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that nobody asked for was taken: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tool.sh"), []byte("#!/bin/sh\necho two\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	two := build()
	if two.Fingerprint == one.Fingerprint {
		t.Fatal("another source has the same fingerprint")
	}
	says := func(want string) {
		t.Helper()
		if _, out := p.boxes.Sh(t, "alice", Home("alice", "tool")+"/tool"); out.Stdout() != want {
			t.Errorf("%q instead of %q; %s", out.Stdout(), want, out.Stderr())
		}
	}
	for _, c := range []Cohort{one, two, two} {
		if _, err := p.Install(t.Context(), p.host, c, "alice"); err != nil {
			t.Fatal(err)
		}
	}
	says("two\n")
	now, err := p.Rollback(t.Context(), p.host, "tool", "alice")
	if err != nil || now.Current != one.Fingerprint || now.Previous != two.Fingerprint {
		t.Fatalf("%+v, %v", now, err)
	}
	says("one\n")
	if gone, err := p.Prune(t.Context(), p.host, "", 0, false); err != nil || len(gone) != 0 {
		t.Errorf("pruned what a tenant has: %+v, %v", gone, err)
	}
	p.nothingLeft(t)
}

// nothingLeft checks that no builder is left, nor what it saw.
func (p place) nothingLeft(t *testing.T) {
	t.Helper()
	all, err := p.boxes.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Errorf("sandboxes %+v, %v", all, err)
	}
	for _, dir := range []string{p.sources, p.builders()} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// What a build may not do.
func TestBuildIsConfined(t *testing.T) {
	p := newPlace(t)
	dir := source(t, map[string]string{"file": "text"})
	script := `! echo x >"$SRC/file" && ! touch "$SRC/new" && ! chmod 0777 "$SRC/file" && ! rm -f "$SRC/file" || { echo "the source can be written"; exit 1; }
[ "$(cat "$SRC/file")" = text ]
[ ! -e /home/alice ]
if (exec 3<>/dev/tcp/127.0.0.1/1) 2>/dev/null; then exit 1; fi
[ "$(ls /sys/class/net 2>/dev/null | grep -cv -e '^lo$')" = 0 ] || exit 1
printf '#!/bin/sh\n' >"$OUT/tool"; chmod +x "$OUT/tool"`
	var log bytes.Buffer
	if _, err := p.Build(t.Context(), p.host, command(dir, script), &log); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "text" {
		t.Errorf("the operator's source: %q, %v", text, err)
	}
	p.nothingLeft(t)
}

func TestFailedBuilds(t *testing.T) {
	p := newPlace(t)
	dir := source(t, map[string]string{"file": "text"})
	for name, c := range map[string]struct{ command, want string }{
		"exit":       {"echo before; exit 7", "exit status 7"},
		"nothing":    {"true", `no executable "tool"`},
		"a link":     {`ln -s /etc/passwd "$OUT/tool"`, `no executable "tool"`},
		"a folder":   {`mkdir "$OUT/tool"`, `no executable "tool"`},
		"no program": {`echo x >"$OUT/tool"`, `no executable "tool"`},
		"empty":      {`: >"$OUT/tool"; chmod +x "$OUT/tool"`, "empty executable"},
		"killed":     {"kill -9 $$", "SIGKILL"},
	} {
		_, err := p.Build(t.Context(), p.host, command(dir, c.command), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		log, ok := strings.CutPrefix(fault.HintOf(err), "read ")
		if name == "exit" {
			if text, err := os.ReadFile(log); !ok || err != nil || !strings.Contains(string(text), "before\n") || !strings.Contains(string(text), "build failed") {
				t.Errorf("the log %q: %q, %v", log, text, err)
			}
		}
	}
	if all, err := p.Cohorts(""); err != nil || len(all) > 0 {
		t.Errorf("failed builds are cohorts: %+v, %v", all, err)
	}
	if gone, err := p.Prune(t.Context(), p.host, "tool", 1, false); err != nil || len(gone) != 7 {
		t.Errorf("pruned %d of 7, %v", len(gone), err)
	}
	if left, err := os.ReadDir(filepath.Join(p.dir, "tool")); err != nil || len(left) > 0 {
		t.Errorf("left of failed builds: %v, %v", left, err)
	}
	p.nothingLeft(t)
}

// Two at once do the work once, and one that is interrupted leaves nothing in the way.
func TestTogetherAndInterrupted(t *testing.T) {
	p := newPlace(t)
	dir := source(t, map[string]string{"tool*": "#!/bin/sh\n"})
	spec := command(dir, `cp tool "$OUT/tool"`)
	ctx, cancel := context.WithCancel(t.Context())
	slow := command(dir, `echo running; sleep 300`)
	stopped := make(chan error, 1)
	go func() {
		_, err := p.Build(ctx, p.host, slow, writerFunc(func(b []byte) {
			if bytes.Contains(b, []byte("running")) {
				cancel()
			}
		}))
		stopped <- err
	}()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("the interrupted build: %v", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	built := 0
	for range 4 {
		wg.Go(func() {
			c, err := p.Build(t.Context(), p.host, spec, &bytes.Buffer{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if !c.Reused {
				built++
			}
		})
	}
	wg.Wait()
	if built != 1 {
		t.Errorf("built %d times", built)
	}
	p.nothingLeft(t)
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

// What a build left whose process was killed: its lock is free, its sandbox is there.
func TestSweep(t *testing.T) {
	p := newPlace(t)
	b, err := p.newBuilder(p.host)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := p.sweep(t.Context(), p.host); err != nil {
		t.Fatal(err)
	}
	if _, err := p.boxes.Get(t.Context(), b.tenant); err != nil {
		t.Errorf("a build that goes on lost its sandbox: %v", err)
	}
	b.lock.Close() // as the kernel does for a dead process
	if err := p.sweep(t.Context(), p.host); err != nil {
		t.Fatal(err)
	}
	p.nothingLeft(t)
}

// A Go tree, from its vendor folder, without network.
func TestGo(t *testing.T) {
	if _, err := os.Stat("/usr/local/go/bin/go"); err != nil {
		t.Skip("sandboxes see no go here")
	}
	p := newPlace(t)
	dir := source(t, map[string]string{
		"go.mod": "module tool\n\ngo 1.26\n", "cmd/tool/main.go": "package main\n\nfunc main() { println(\"made by go\") }\n",
	})
	spec := Spec{Name: "gotool", Source: dir, Builder: BuilderGo, Binaries: map[string]string{"tool": "./cmd/tool"}, Vendor: true}
	var log bytes.Buffer
	c, err := p.Build(t.Context(), p.host, spec, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if _, err := p.Install(t.Context(), p.host, c, "alice"); err != nil {
		t.Fatal(err)
	}
	if _, out := p.boxes.Sh(t, "alice", Home("alice", "gotool")+"/tool 2>&1"); out.Stdout() != "made by go\n" {
		t.Errorf("%q", out.Stdout())
	}
}

// A Cargo tree, whose own configuration stays and whose dependencies come from its vendor folder.
func TestCargo(t *testing.T) {
	if _, err := os.Stat("/usr/bin/cargo"); err != nil {
		t.Skip("sandboxes see no cargo here")
	}
	p := newPlace(t)
	dir := source(t, map[string]string{
		"Cargo.toml":  "[package]\nname = \"tool\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nword = { path = \"word\" }\n",
		"Cargo.lock":  "version = 3\n\n[[package]]\nname = \"tool\"\nversion = \"0.1.0\"\ndependencies = [\n \"word\",\n]\n\n[[package]]\nname = \"word\"\nversion = \"0.1.0\"\n",
		"src/main.rs": "fn main() { println!(\"{}\", word::word()) }\n", ".cargo/config.toml": "[profile.release]\nopt-level = 1\n",
		"word/Cargo.toml": "[package]\nname = \"word\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "word/src/lib.rs": "pub fn word() -> &'static str { \"made by cargo\" }\n",
	})
	spec := Spec{Name: "cargotool", Source: dir, Builder: BuilderCargo, Binaries: map[string]string{"tool": ""}, Vendor: true}
	var log bytes.Buffer
	c, err := p.Build(t.Context(), p.host, spec, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if _, err := p.Install(t.Context(), p.host, c, "alice"); err != nil {
		t.Fatal(err)
	}
	if _, out := p.boxes.Sh(t, "alice", Home("alice", "cargotool")+"/tool"); out.Stdout() != "made by cargo\n" {
		t.Errorf("%q", out.Stdout())
	}
}
