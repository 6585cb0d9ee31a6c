package archtest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	for _, program := range programs {
		if err := os.WriteFile(filepath.Join(bin, program.Name()), nil, 0o755); err != nil {
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
