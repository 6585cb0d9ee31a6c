package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rcHeader reads the block that rcorder(8) reads: adjacent lines "# KEY: words" after the first PROVIDE, ended by the
// first line of another form.
func rcHeader(t *testing.T, path string) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		key, words, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		if !ok || !slices.Contains([]string{"PROVIDE", "REQUIRE", "BEFORE", "KEYWORD"}, key) {
			if len(header) > 0 {
				break
			}
			continue
		}
		header[key] = append(header[key], strings.Fields(words)...)
	}
	return header
}

func TestRcScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root(t), "rc.d", "*"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no rc.d scripts: %v", err)
	}
	for _, path := range scripts {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			header := rcHeader(t, path)
			if !slices.Equal(header["PROVIDE"], []string{name}) {
				t.Errorf("PROVIDE is %v, want %s", header["PROVIDE"], name)
			}
			for _, keyword := range []string{"nojail", "shutdown"} {
				if !slices.Contains(header["KEYWORD"], keyword) {
					t.Errorf("KEYWORD lacks %s", keyword)
				}
			}
			for _, need := range header["REQUIRE"] {
				own := strings.HasPrefix(need, "playground")
				if own && !slices.Contains(scripts, filepath.Join(filepath.Dir(path), need)) {
					t.Errorf("REQUIRE names %s, which nobody provides", need)
				}
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("the script is not executable (%v)", err)
			}
		})
	}
}

// The order at boot: jails before the securelevel is raised, the network's daemon after it and after both root daemons.
func TestRcOrder(t *testing.T) {
	folder := filepath.Join(root(t), "rc.d")
	if header := rcHeader(t, filepath.Join(folder, "playground_jaild")); !slices.Contains(header["BEFORE"], "securelevel") {
		t.Error("playground_jaild must be BEFORE securelevel: it loads modules")
	}
	if header := rcHeader(t, filepath.Join(folder, "playground_reaperd")); !slices.Contains(header["REQUIRE"], "playground_jaild") {
		t.Error("playground_reaperd must REQUIRE playground_jaild")
	}
	for _, need := range []string{"securelevel", "playground_jaild", "playground_reaperd"} {
		if header := rcHeader(t, filepath.Join(folder, "playground_facultyd")); !slices.Contains(header["REQUIRE"], need) {
			t.Errorf("playground_facultyd must REQUIRE %s", need)
		}
	}
	header := rcHeader(t, filepath.Join(folder, "playground"))
	for _, need := range []string{"securelevel", "playground_jaild", "playground_reaperd"} {
		if !slices.Contains(header["REQUIRE"], need) {
			t.Errorf("playground must REQUIRE %s", need)
		}
	}
}
