package faculty

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestStageScript: whatever the tenant has put in the token's place, the token ends up as a file of its own with mode 0400, or
// nowhere, and nothing that a link leads to is touched.
func TestStageScript(t *testing.T) {
	const token = "s3cret"
	for name, prepare := range map[string]func(dir, outside string) error{
		"nothing there":      func(string, string) error { return nil },
		"an older token":     func(dir, _ string) error { return write(dir+"/token", "old", 0o400) },
		"a wide folder":      func(dir, _ string) error { return os.Mkdir(dir, 0o777) },
		"a link to a folder": func(dir, outside string) error { return os.Symlink(outside, dir) },
		"a dead link":        func(dir, _ string) error { return os.Symlink("/no/where", dir) },
		"a file":             func(dir, _ string) error { return os.WriteFile(dir, nil, 0o644) },
		"the token is a link": func(dir, outside string) error {
			return firstError(os.Mkdir(dir, 0o700), os.Symlink(outside+"/victim", dir+"/token"))
		},
		"the token is a folder": func(dir, _ string) error { return os.MkdirAll(dir+"/token/deep", 0o700) },
		"the token is a link to a folder": func(dir, outside string) error {
			return firstError(os.Mkdir(dir, 0o700), os.Symlink(outside, dir+"/token"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir, outside := filepath.Join(top, "run"), filepath.Join(top, "outside")
			if err := write(outside+"/victim", "precious", 0o644); err != nil {
				t.Fatal(err)
			}
			if err := prepare(dir, outside); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/bin/sh", "-c", stageScript, "sh", dir+"/token", dir, fmt.Sprint(len(token)))
			cmd.Stdin = strings.NewReader(token)
			out, err := cmd.CombinedOutput()
			got, readErr := os.ReadFile(dir + "/token")
			if err != nil || readErr != nil || string(got) != token {
				t.Fatalf("%v, %v: %q: %s", err, readErr, got, out)
			}
			for path, mode := range map[string]os.FileMode{dir: os.ModeDir | 0o700, dir + "/token": 0o400} {
				if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
					t.Errorf("%s: %v, %v", path, info.Mode(), err)
				}
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("left in the folder: %v", entries)
			}
			if entries, _ := os.ReadDir(outside); len(entries) != 1 {
				t.Errorf("left outside: %v", entries)
			}
			if victim, err := os.ReadFile(outside + "/victim"); string(victim) != "precious" {
				t.Errorf("the victim holds %q, %v", victim, err)
			}
		})
	}
}

// A token that did not arrive whole is not staged, and the older one stays.
func TestStageScriptCutOff(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir+"/token", "old", 0o400); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", stageScript, "sh", dir+"/token", dir, "7")
	cmd.Stdin = strings.NewReader("s3cret")
	if err := cmd.Run(); err == nil {
		t.Error("it says that all is well")
	}
	if got, err := os.ReadFile(dir + "/token"); string(got) != "old" {
		t.Errorf("the token is %q, %v", got, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

func write(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestLogProperties: what is read is what was written, in order, and the files stay within their bound.
func TestLogProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "w.log")
		l := newLog(path)
		l.most = 64
		defer l.close()
		var all []byte
		for range rapid.IntRange(1, 30).Draw(rt, "writes") {
			p := bytes.Repeat([]byte{byte('a' + len(all)%26)}, rapid.IntRange(0, 150).Draw(rt, "length"))
			if err := l.write(p); err != nil {
				rt.Fatal(err)
			}
			all = append(all, p...)
		}
		var total int64
		names, _ := filepath.Glob(path + "*")
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil || info.Size() > l.most || info.Mode() != 0o600 {
				rt.Fatalf("%s: %v, %v", name, info, err)
			}
			total += info.Size()
		}
		if len(names) > logFiles+1 {
			rt.Fatalf("files %v", names)
		}
		from := rapid.Int64Range(-200, int64(len(all))).Draw(rt, "from")
		var got []byte
		at, gap := from, false
		for {
			page, err := l.read(at)
			if err != nil {
				rt.Fatal(err)
			}
			gap = gap || page.Gap
			if len(page.Data) == 0 {
				break
			}
			got, at = append(got, page.Data...), page.Next
		}
		if !bytes.HasSuffix(all, got) {
			rt.Fatalf("read %q from %d of %q", got, from, all)
		}
		if from >= 0 && !gap && len(got) != len(all)-int(from) {
			rt.Fatalf("read %d bytes from %d of %d without a gap", len(got), from, len(all))
		}
		if from < 0 && int64(len(got)) < min(-from, l.most, int64(len(all))) {
			rt.Fatalf("read %d bytes of the end, of %d", len(got), len(all))
		}
	})
}

// A log whose folder is gone is an error once, and the worker goes on.
func TestLogFails(t *testing.T) {
	l := newLog(filepath.Join(t.TempDir(), "no", "w.log"))
	if err := l.note(time.Now(), "x"); err == nil {
		t.Error("no error")
	}
	if err := l.note(time.Now(), "x"); err != nil {
		t.Errorf("told again: %v", err)
	}
}

// A log is not written through a link.
func TestLogLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir+"/victim", dir+"/w.log"); err != nil {
		t.Fatal(err)
	}
	if err := newLog(dir+"/w.log").note(time.Now(), "x"); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(dir + "/victim"); err == nil {
		t.Error("the link was followed")
	}
}

func TestMarks(t *testing.T) {
	m := marks(t.TempDir())
	if err := m.make(); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.get(markStopped, "alice"); ok {
		t.Error("a mark that nobody made")
	}
	if err := firstError(m.drop(markStopped, "alice"), m.set(markStopped, "alice", "x"), m.set(markStopped, "alice", "01A")); err != nil {
		t.Fatal(err)
	}
	if text, ok := m.get(markStopped, "alice"); !ok || text != "01A" {
		t.Errorf("got %q, %v", text, ok)
	}
	if err := m.drop(markStopped, "alice"); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.get(markStopped, "alice"); ok {
		t.Error("a mark that was dropped")
	}
}
