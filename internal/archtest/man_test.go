package archtest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page returns the source of a page of man/.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "man", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found returns the first group of every match, sorted and once each.
func found(text, pattern string) []string {
	set := map[string]bool{}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		set[match[1]] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func TestManLint(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("mandoc is not installed")
	}
	pages, err := filepath.Glob(filepath.Join(root(t), "man", "*"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, path := range pages {
		if out, err := exec.Command("mandoc", "-T", "lint", "-W", "warning", path).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// Every program and every rc script has a page; the script "playground" shares its name with the tool and has playground_rc.
func TestManComplete(t *testing.T) {
	want := []string{"playground.toml.5"}
	for _, folder := range []string{"cmd", "rc.d"} {
		entries, err := os.ReadDir(filepath.Join(root(t), folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			want = append(want, rcPage(folder, entry.Name()))
		}
	}
	entries, err := os.ReadDir(filepath.Join(root(t), "man"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages in man/ (-want +got):\n%s", diff)
	}
	for _, name := range got {
		text := page(t, name)
		title, section, _ := strings.Cut(strings.ToUpper(name), ".")
		if i := strings.LastIndex(name, "."); name == "playground.toml.5" {
			title, section = strings.ToUpper(name[:i]), name[i+1:]
		}
		if !strings.Contains(text, "\n.Dt "+title+" "+section+"\n") || !strings.Contains(text, "\n.Nm "+strings.ToLower(title)+"\n") {
			t.Errorf("%s is not titled %s(%s)", name, title, section)
		}
	}
}

// rcPage is the page of a program or script.
func rcPage(folder, name string) string {
	if folder == "rc.d" && name == "playground" {
		return "playground_rc.8"
	}
	return name + ".8"
}

// References between our pages must lead somewhere.
func TestManReferences(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root(t), "man"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		for _, match := range regexp.MustCompile(`\.Xr (playground\S*) (\d)`).FindAllStringSubmatch(page(t, entry.Name()), -1) {
			if _, err := os.Stat(filepath.Join(root(t), "man", match[1]+"."+match[2])); err != nil {
				t.Errorf("%s refers to %s(%s): %v", entry.Name(), match[1], match[2], err)
			}
		}
	}
}

// The page of a program tells of exactly the flags that its usage text tells of.
func TestManUsage(t *testing.T) {
	programs := []string{"playgroundd", "playground-jaild", "playground-reaperd", "playground-facultyd", "playground-launch"}
	bin := builtPrograms(t, programs)
	for _, name := range programs {
		usage, _ := exec.Command(filepath.Join(bin, name), "-h").CombinedOutput() // the status is not the same for all
		// "  -c file" has an argument, "  -t" and what follows a tab or a new line is an explanation.
		var want []string
		for _, item := range found(string(usage), `(?m)^  -(\w+(?: \w+)?)(?:\t.*)?$`) {
			want = append(want, strings.Replace(item, " ", " Ar ", 1))
		}
		if len(want) == 0 {
			t.Errorf("%s -h says nothing of flags:\n%s", name, usage)
		}
		if diff := cmp.Diff(want, found(page(t, name+".8"), `(?m)^\.It Fl (.+)$`)); diff != "" {
			t.Errorf("flags in %s.8 (-usage +page):\n%s", name, diff)
		}
	}
}

// builtPrograms returns a folder with the programs: PLAYGROUND_BIN where it is set, else they are built as "make build" does.
func builtPrograms(t *testing.T, programs []string) string {
	t.Helper()
	if bin := os.Getenv("PLAYGROUND_BIN"); bin != "" {
		return bin
	}
	bin := t.TempDir()
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", bin + "/"}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// playground.toml(5) and the sample, which the configuration's own tests compare with the code, have the same keys with
// the same defaults in the same order.
func TestManConfigKeys(t *testing.T) {
	sample, err := os.ReadFile(filepath.Join(root(t), "etc/playground.toml.sample"))
	if err != nil {
		t.Fatal(err)
	}
	keys := func(text, sectionForm, keyForm string) (all []string) {
		section := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if match := regexp.MustCompile(sectionForm).FindStringSubmatch(line); match != nil {
				section = match[1]
			} else if match := regexp.MustCompile(keyForm).FindStringSubmatch(line); match != nil {
				all = append(all, section+"."+match[1]+" = "+match[2])
			}
		}
		return all
	}
	want := keys(string(sample), `^\[(\w+)\]$`, `^#(\w+) = (.+)$`)
	manual := strings.ReplaceAll(page(t, "playground.toml.5"), `\(dq`, `"`)
	got := keys(manual, `^\.Ss Section Bq Ic (\w+)$`, `^\.It Ic (\w+) Li = (.+)$`)
	if len(want) == 0 {
		t.Fatal("the sample has no keys")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-sample +playground.toml.5):\n%s", diff)
	}
}

// The variables and commands of an rc script are those of its page. The script's header is for whoever reads the script.
func TestManRcScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root(t), "rc.d", "*"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no rc.d scripts: %v", err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script, name := string(text), rcPage("rc.d", filepath.Base(path))
		manual := page(t, name)
		if diff := cmp.Diff(found(script, `(?m)^# (\w+) \(\w+\):`), found(manual, `(?m)^\.It Va (\w+)$`)); diff != "" {
			t.Errorf("variables in %s (-script +page):\n%s", name, diff)
		}
		var commands []string
		for _, words := range found(script, `(?m)^extra_commands="(.*)"$`) {
			commands = append(commands, strings.Fields(words)...)
		}
		slices.Sort(commands)
		if diff := cmp.Diff(commands, found(manual, `(?m)^\.It Cm (\w+)$`)); diff != "" {
			t.Errorf("commands in %s (-script +page):\n%s", name, diff)
		}
	}
}
