package bundle

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"playground/fault"
	"playground/jail"
)

func TestLogIsBounded(t *testing.T) {
	p := newPlace(t)
	spec := command(source(t, map[string]string{"file": "text"}), `yes 0123456789012345678901234567890123456789 | head -c 40000000; exit 1`)
	_, err := p.Build(t.Context(), p.host, spec, &bytes.Buffer{})
	_, path, _ := strings.Cut(fault.HintOf(err), "read ")
	info, statErr := os.Stat(path)
	if statErr != nil || info.Size() > maxLogBytes+1024 {
		t.Fatalf("%v: %v, %v", err, info, statErr)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "\nthe build failed: exit status 1\n") {
		t.Errorf("%v: the log ends %q", err, text[max(0, len(text)-200):])
	}
}

func TestBuildSeesNoSharedPile(t *testing.T) {
	p := newPlace(t)
	spec := command(source(t, map[string]string{"file": "text"}), `! echo x >>/shared/shared.pile || exit 1; cp /bin/sh "$OUT/tool"`)
	var log bytes.Buffer
	if _, err := p.Build(t.Context(), p.host, spec, &log); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
}

func TestInstallAgain(t *testing.T) {
	p := newPlace(t)
	var all []Cohort
	for _, text := range []string{"one", "two", "three"} {
		spec := command(source(t, map[string]string{"tool*": "#!/bin/sh\necho " + text + "\n"}), `cp tool "$OUT/tool"`)
		c, err := p.Build(t.Context(), p.host, spec, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	install := func(c Cohort, previous, says string) {
		t.Helper()
		now, err := p.Install(t.Context(), p.host, c, "alice")
		if err != nil || now.Current != c.Fingerprint || now.Previous != previous {
			t.Fatalf("%+v, %v", now, err)
		}
		if _, out := p.boxes.Sh(t, "alice", Home("alice", "tool")+"/tool"); out.Stdout() != says+"\n" {
			t.Errorf("%q instead of %q; %s", out.Stdout(), says, out.Stderr())
		}
	}
	install(all[0], "", "one")
	p.boxes.Sh(t, "alice", `cd ~/faculties/tool/current && rm -f tool && echo "echo broken" >tool`) // or a power failure
	install(all[0], "", "one")
	p.boxes.Sh(t, "alice", `rm -rf ~/faculties/tool/`+all[0].Fingerprint)
	install(all[1], "", "two")
	install(all[2], all[1].Fingerprint, "three")

	if _, err := p.boxes.Close(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if err := p.boxes.Destroy(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if all, err := p.Installations(t.Context(), p.host); err != nil || len(all) > 0 {
		t.Errorf("what a tenant had who is gone: %+v, %v", all, err)
	}
	p.boxes.Tenant(t, "alice", jail.NetworkNone)
	if _, err := p.Rollback(t.Context(), p.host, "tool", "alice"); !errors.Is(err, fault.NotFound) {
		t.Errorf("a new tenant has a previous build: %v", err)
	}
	install(all[0], "", "one")
}

func TestSweepBesideBuilds(t *testing.T) {
	p := newPlace(t)
	ctx, stop := context.WithCancel(t.Context())
	var sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for ctx.Err() == nil {
				if err := p.sweep(t.Context(), p.host); err != nil {
					t.Errorf("sweep: %v", err)
				}
			}
		})
	}
	for range 300 {
		b, err := p.newBuilder(p.host)
		if err != nil {
			t.Errorf("a build cannot begin: %v", err)
			break
		}
		if err := b.end(t.Context()); err != nil {
			t.Errorf("a build cannot end: %v", err)
		}
	}
	stop()
	sweepers.Wait()
	p.nothingLeft(t)
}
