package archtest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// installed runs "make install-files" with the given make into a fresh folder, with empty files for the programs, and
// returns the paths below PREFIX.
func installed(t *testing.T, make string) []string {
	t.Helper()
	top := root(t)
	bin, stage := t.TempDir(), t.TempDir()
	programs, err := os.ReadDir(filepath.Join(top, "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(bin, "completions"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := []string{"completions/playground.bash", "completions/playground.fish", "completions/playground.zsh"}
	for _, program := range programs {
		names = append(names, program.Name())
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(bin, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(make, "install-files", "BIN="+bin, "DESTDIR="+stage, "PREFIX=/usr/local")
	cmd.Dir = top
	// A make that runs this test must not hand its own flags and job server down.
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=", "MAKE=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s install-files: %v\n%s", make, err, out)
	}
	var files []string
	prefix := filepath.Join(stage, "usr/local")
	err = filepath.WalkDir(stage, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(prefix, path)
		files = append(files, relative)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(files)
	return files
}

// listedFiles returns the files of pkg-plist: the last word of every line that is not a folder.
func listedFiles(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "pkg-plist"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "@dir") {
			continue
		}
		files = append(files, words[len(words)-1])
	}
	sort.Strings(files)
	return files
}

func TestPlistMatchesInstall(t *testing.T) {
	for _, make := range []string{"make", "bmake"} {
		t.Run(make, func(t *testing.T) {
			if _, err := exec.LookPath(make); err != nil {
				t.Skipf("%s is not installed", make)
			}
			if diff := cmp.Diff(listedFiles(t), installed(t, make)); diff != "" {
				t.Errorf("pkg-plist and make install differ (-listed +installed):\n%s", diff)
			}
		})
	}
}

// The port's files are made from ours: "make port-files" writes them again.
func TestPortFiles(t *testing.T) {
	top := root(t)
	read := func(names ...string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(append([]string{top}, names...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	scripts, err := os.ReadDir(filepath.Join(top, "rc.d"))
	if err != nil {
		t.Fatal(err)
	}
	makefile := read("port", "Makefile")
	for _, script := range scripts {
		want := strings.ReplaceAll(read("rc.d", script.Name()), "/usr/local", "%%PREFIX%%")
		if diff := cmp.Diff(want, read("port", "files", script.Name()+".in")); diff != "" {
			t.Errorf("port/files/%s.in is not what make port-files writes:\n%s", script.Name(), diff)
		}
		if !slices.Contains(portWords(makefile, "USE_RC_SUBR"), script.Name()) {
			t.Errorf("USE_RC_SUBR of port/Makefile lacks %s", script.Name())
		}
	}
	var want strings.Builder
	for line := range strings.Lines(read("pkg-plist")) {
		if !strings.Contains(line, " etc/rc.d/") { // USE_RC_SUBR adds them
			want.WriteString(line)
		}
	}
	if diff := cmp.Diff(want.String(), read("port", "pkg-plist")); diff != "" {
		t.Errorf("port/pkg-plist is not what make port-files writes:\n%s", diff)
	}
	for _, file := range listedFiles(t) {
		if program := filepath.Base(file); (strings.HasPrefix(file, "sbin/") || strings.HasPrefix(file, "libexec/")) &&
			!strings.Contains(makefile, ":${PREFIX}/"+file) {
			t.Errorf("GO_TARGET of port/Makefile lacks %s", program)
		}
	}
}

// portWords returns the words of a one-line variable of the port's Makefile.
func portWords(makefile, variable string) []string {
	for line := range strings.Lines(makefile) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == variable+"=" {
			return words[1:]
		}
	}
	return nil
}
