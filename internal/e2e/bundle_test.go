package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/faculty/bundle"
)

// What an operator types to bring a source into a tenant's sandbox, and what goes wrong at first.
func TestBundles(t *testing.T) {
	h := start(t)
	ada := h.connect(h.tenant("ada"))
	session := ada.open()
	source := filepath.Join(t.TempDir(), "Greeter")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	greeter := filepath.Join(source, "greet.sh")
	write(t, greeter, "#!/bin/sh\necho one\n")
	write(t, filepath.Join(source, "README"), "x\n")
	build := []string{"faculty", "build", source, "--name", "greeter", "--binary", "greet", "--command"}
	with := func(more ...string) []string { return append(build[:len(build):len(build)], more...) }

	h.refused(t, "has no go.mod and no Cargo.toml", "faculty", "build", source)
	h.refused(t, "no such file", "faculty", "build", source+"/nowhere", "--command", "x")
	h.refused(t, "exit status 3", with("exit 3")...)
	h.refused(t, `made no executable "greet"`, with("true")...)
	if _, stderr, _ := h.playground(with("true")...); !strings.Contains(stderr, "build.log") {
		t.Errorf("a failed build does not name its log: %s", stderr)
	}
	h.refused(t, "no complete build", "faculty", "install", "greeter", "ada")
	var cohorts struct {
		Cohorts   []bundle.Cohort
		Installed []bundle.Installation
	}
	if h.must(&cohorts, "faculty", "cohorts"); cohorts.Cohorts == nil || len(cohorts.Cohorts)+len(cohorts.Installed) > 0 {
		t.Errorf("failed builds are listed: %+v", cohorts)
	}

	recipe := `install -m 0755 greet.sh "$OUT/greet"; echo made; printf 'a\033[2Jb\n'`
	stdout, stderr, status := h.playground(with(recipe)...)
	if status != 0 || !strings.Contains(stdout, " built\n") || !strings.Contains(stderr, "made\na\\x1b[2Jb\n") {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	var one, two bundle.Cohort
	if h.must(&one, with(recipe)...); !one.Reused || one.Name != "greeter" || len(one.Binaries) != 1 {
		t.Errorf("the second build is %+v", one)
	}
	write(t, greeter, "#!/bin/sh\necho two\n")
	if h.must(&two, with(recipe)...); two.Reused || two.Fingerprint == one.Fingerprint {
		t.Errorf("the build of another source is %+v", two)
	}
	says := func(want string) {
		t.Helper()
		if text := ada.ok(nil, "exec", map[string]any{"session": session, "command": bundle.Home("ada", "greeter") + "/greet"}); !strings.Contains(text, want) {
			t.Errorf("%q instead of %q", text, want)
		}
	}
	h.refused(t, `no tenant "nobody"`, "faculty", "install", "greeter", "nobody")
	h.must(nil, "faculty", "install", "greeter@"+one.Fingerprint[:8], "ada")
	says("one")
	h.refused(t, "no previous build", "faculty", "rollback", "greeter", "ada")
	// One that fails does not keep the others from it.
	stdout, stderr, status = h.playground("faculty", "install", "greeter", "nobody", "ada")
	if status != 1 || !strings.Contains(stdout, "tenant ada has greeter@"+two.Fingerprint[:12]) || !strings.Contains(stderr, "nobody") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	says("two")
	var changed []bundle.Installation
	h.must(&changed, "faculty", "rollback", "greeter", "ada")
	if len(changed) != 1 || changed[0].Current != one.Fingerprint || changed[0].Previous != two.Fingerprint {
		t.Errorf("rolled back to %+v", changed)
	}
	says("one")
	stdout, _, status = h.playground("faculty", "cohorts", "greeter")
	if status != 0 || !strings.Contains(stdout, "ada (previous)") {
		t.Errorf("status %d, %s", status, stdout)
	}
	h.prunes(t)
}

// prunes checks that what a tenant has stays while it lives, and no longer.
func (h *host) prunes(t *testing.T) {
	t.Helper()
	var gone []bundle.Pruned
	if h.must(&gone, "faculty", "prune", "--keep", "0", "--dry-run"); len(gone) != 2 || gone[0].Complete || gone[1].Complete {
		t.Errorf("would remove %+v", gone)
	}
	h.must(&gone, "faculty", "prune", "greeter", "--keep", "0")
	if _, stderr, status := h.playground("faculty", "prune"); status != 0 || !strings.Contains(stderr, "nothing to remove") {
		t.Errorf("status %d, %q", status, stderr)
	}
	h.must(nil, "user", "destroy", "ada", "--force")
	if h.must(&gone, "faculty", "prune", "--keep", "0"); len(gone) != 2 || !gone[0].Complete {
		t.Errorf("removed %+v", gone)
	}
	var list []struct{ Tenant string }
	if h.must(&list, "user", "list"); len(list) > 0 {
		t.Errorf("builders are left: %+v", list)
	}
}
