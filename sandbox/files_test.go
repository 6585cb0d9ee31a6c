package sandbox_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"playground/fault"
	"playground/job"
	"playground/sandbox"
)

// names holds every byte that a file name can hold, and the shapes that break careless scripts.
func names() []string {
	list := []string{
		"plain", "-rf", "--", "-n x", "=", "!", "(", "]", "a b", " lead", "trail ", "'", "\"", "`id`", "$(id)", "$HOME", "*", "?", "[a]",
		"\\", "\\n", "new\nline", "ends\n", "ends\n\n", "\n", "\t", "%s", "~", "#", ";", "&", "a/../b", "ünï", "\xff\xfe", "x=1", "...", ".hidden",
		strings.Repeat("n", 255),
	}
	for b := 1; b < 256; b++ {
		if b != '/' {
			list = append(list, "byte"+string([]byte{byte(b)})+"end", string([]byte{'e', byte(b)}))
		}
	}
	return list
}

func TestAnyName(t *testing.T) {
	p, _, jobs := newProvider(t, 1000)
	session := open(t, p, "alice")
	home := filepath.Join(jobs.Root, "alice")
	if err := os.MkdirAll(filepath.Join(home, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range names() {
		data := fmt.Appendf(nil, "content %d", i)
		w, err := p.Write(t.Context(), "alice", session, name, "", data)
		if err != nil || !w.Atomic || w.Size != len(data) {
			t.Fatalf("Write(%q) = %+v, %v", name, w, err)
		}
		got, err := os.ReadFile(home + "/" + name)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("after Write(%q) the file holds %q, %v", name, got, err)
		}
		f, err := p.Read(t.Context(), "alice", session, name, "")
		if err != nil || !bytes.Equal(f.Data, data) {
			t.Fatalf("Read(%q) = %q, %v", name, f.Data, err)
		}
	}
	noTemporaries(t, home)
}

// The same through a symlink whose target has a difficult name, and in a folder with one.
func TestSymlinksAndFolders(t *testing.T) {
	p, _, jobs := newProvider(t, 1000)
	session := open(t, p, "alice")
	home := filepath.Join(jobs.Root, "alice")
	for _, folder := range []string{"-d", "a\n", "q'\"", "\xff"} {
		dir := home + "/" + folder
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"x", "t\n", "t\n\n", "-v", "x\nx"} {
			link := filepath.Join(home, fmt.Sprintf("link%d", i))
			_ = os.Remove(link)
			if err := os.Symlink(folder+"/"+name, link); err != nil {
				t.Fatal(err)
			}
			for _, content := range []string{"one", "two"} { // the first makes the dangling link's target
				w, err := p.Write(t.Context(), "alice", session, filepath.Base(link), "", []byte(content))
				if err != nil || !w.Atomic {
					t.Fatalf("Write(link to %q/%q) = %+v, %v", folder, name, w, err)
				}
				if got, err := os.ReadFile(dir + "/" + name); err != nil || string(got) != content {
					t.Fatalf("target %q/%q holds %q, %v", folder, name, got, err)
				}
				if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
					t.Fatalf("the link was replaced: %v %v", info, err)
				}
				if f, err := p.Read(t.Context(), "alice", session, filepath.Base(link), ""); err != nil || string(f.Data) != content {
					t.Fatalf("Read = %q, %v", f.Data, err)
				}
			}
		}
		noTemporaries(t, dir)
	}
	// A link that leads nowhere, a loop, a link to a folder.
	_ = os.Symlink("none/such", home+"/dangling")
	_ = os.Symlink("loop", home+"/loop")
	_ = os.Symlink("-d", home+"/folder")
	for name, kind := range map[string]fault.Kind{"dangling": fault.NotFound, "loop": fault.NotFound, "folder": fault.Invalid} {
		if _, err := p.Read(t.Context(), "alice", session, name, ""); !errors.Is(err, kind) {
			t.Errorf("Read(%s) = %v, want %s", name, err, kind)
		}
		if _, err := p.Write(t.Context(), "alice", session, name, "", nil); err == nil {
			t.Errorf("Write(%s) succeeded", name)
		}
	}
}

func TestSizes(t *testing.T) {
	const limit = 3 << 20
	p, _, jobs := newProvider(t, 0)
	session := open(t, p, "alice")
	data := make([]byte, limit)
	_, _ = rand.Read(data)
	if _, err := p.Write(t.Context(), "alice", session, "full", "", data); err != nil {
		t.Fatal(err)
	}
	f, err := p.Read(t.Context(), "alice", session, "full", "")
	if err != nil || !bytes.Equal(f.Data, data) || f.Text {
		t.Fatalf("3 MiB did not come back exactly: %d bytes, %v", len(f.Data), err)
	}
	if _, err := p.Write(t.Context(), "alice", session, "more", "", append(data, 1)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("write over the limit: %v", err)
	}
	big := filepath.Join(jobs.Root, "alice", "big")
	for _, size := range []int64{limit + 1, 50 << 20} {
		if err := os.WriteFile(big, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Read(t.Context(), "alice", session, "big", ""); !errors.Is(err, fault.TooLarge) || fault.HintOf(err) == "" {
			t.Errorf("read of %d bytes: %v", size, err)
		}
	}
	// A large old file is not copied just to be replaced.
	if w, err := p.Write(t.Context(), "alice", session, "big", "", []byte("small")); err != nil || w.Atomic {
		t.Errorf("Write over a large file = %+v, %v", w, err)
	}
	if got, _ := os.ReadFile(big); string(got) != "small" {
		t.Errorf("got %d bytes", len(got))
	}
	for _, empty := range [][]byte{nil, {}} {
		if w, err := p.Write(t.Context(), "alice", session, "empty", "", empty); err != nil || w.Size != 0 {
			t.Errorf("empty write = %+v, %v", w, err)
		}
	}
	if f, err := p.Read(t.Context(), "alice", session, "empty", ""); err != nil || len(f.Data) != 0 || !f.Text {
		t.Errorf("empty read = %+v, %v", f, err)
	}
}

func TestRefusals(t *testing.T) {
	p, _, jobs := newProvider(t, 1000)
	session := open(t, p, "alice")
	home := filepath.Join(jobs.Root, "alice")
	must(t, os.MkdirAll(home+"/dir", 0o755))
	must(t, os.WriteFile(home+"/file", []byte("x"), 0o644))
	must(t, syscall.Mkfifo(home+"/pipe", 0o644))
	tests := []struct {
		path, cwd   string
		read, write fault.Kind // "" = allowed
	}{
		{"", "", fault.Invalid, fault.Invalid},
		{"a\x00b", "", fault.Invalid, fault.Invalid},
		{"file", "a\x00", fault.Invalid, fault.Invalid},
		{strings.Repeat("x", 4096), "", fault.Invalid, fault.Invalid},
		{strings.Repeat("x", 300), "", fault.NotFound, fault.Unavailable},
		{"dir", "", fault.Invalid, fault.Invalid},
		{"dir/", "", fault.Invalid, fault.Invalid},
		{".", "", fault.Invalid, fault.Invalid},
		{"/", "", fault.Invalid, fault.Invalid},
		{"file/", "", fault.Invalid, fault.Invalid},
		{"file/x", "", fault.Invalid, fault.Invalid},
		{"missing/x", "", fault.NotFound, fault.NotFound},
		{"~/x", "", fault.NotFound, fault.NotFound},
		{"$HOME/x", "", fault.NotFound, fault.NotFound},
		{"missing", "", fault.NotFound, ""},
		{"/dev/null", "", fault.Invalid, ""},
		{"pipe", "", fault.Invalid, "-"},
		{"file", "none", fault.Unavailable, fault.Unavailable},
		{"../file", "dir", "", ""},
	}
	for _, test := range tests {
		_, err := p.Read(t.Context(), "alice", session, test.path, test.cwd)
		if err != nil && fault.HintOf(err) == "" {
			t.Errorf("Read(%.20q, %q): no hint with %v", test.path, test.cwd, err)
		}
		if got := fault.KindOf(err); got != test.read {
			t.Errorf("Read(%.20q, %q): %q (%v), want %q", test.path, test.cwd, got, err, test.read)
		}
		if test.write == "-" {
			continue
		}
		w, err := p.Write(t.Context(), "alice", session, test.path, test.cwd, []byte("y"))
		if got := fault.KindOf(err); got != test.write {
			t.Errorf("Write(%.20q, %q): %q (%v), want %q", test.path, test.cwd, got, err, test.write)
		}
		if test.path == "/dev/null" && w.Atomic {
			t.Error("a device was replaced by a file")
		}
	}
	if _, err := p.Read(t.Context(), "alice", session, "~/file", ""); !strings.Contains(fault.HintOf(err), "echo ~") {
		t.Errorf("a path for a shell: %v, hint %q", err, fault.HintOf(err))
	}
	noTemporaries(t, home)
}

func TestModeLinksAndReadOnly(t *testing.T) {
	p, _, jobs := newProvider(t, 1000)
	session := open(t, p, "alice")
	home := filepath.Join(jobs.Root, "alice")
	must(t, os.MkdirAll(home+"/ro", 0o755))
	must(t, os.WriteFile(home+"/script", []byte("old content that is longer"), 0o644))
	must(t, os.Chmod(home+"/script", 0o751))
	w, err := p.Write(t.Context(), "alice", session, "script", "", []byte("new"))
	if err != nil || !w.Atomic {
		t.Fatalf("Write = %+v, %v", w, err)
	}
	info, err := os.Stat(home + "/script")
	if err != nil || info.Mode().Perm() != 0o751 || info.Size() != 3 {
		t.Errorf("after write: %v %v", info.Mode(), err)
	}

	must(t, os.Link(home+"/script", home+"/other"))
	if w, err = p.Write(t.Context(), "alice", session, "other", "", []byte("both")); err != nil || w.Atomic {
		t.Fatalf("Write to a file with two names = %+v, %v", w, err)
	}
	if got, _ := os.ReadFile(home + "/script"); string(got) != "both" {
		t.Errorf("the other name holds %q", got)
	}

	if os.Getuid() == 0 {
		t.Log("root ignores modes; the read-only cases need an ordinary user")
		return
	}
	must(t, os.WriteFile(home+"/ro/old", []byte("old"), 0o644))
	must(t, os.WriteFile(home+"/locked", []byte("old"), 0o444))
	must(t, os.WriteFile(home+"/secret", []byte("old"), 0o000))
	must(t, os.Chmod(home+"/ro", 0o555))
	defer os.Chmod(home+"/ro", 0o755)
	if w, err = p.Write(t.Context(), "alice", session, "ro/old", "", []byte("new")); err != nil || w.Atomic {
		t.Errorf("Write in a read-only folder = %+v, %v", w, err)
	}
	for _, name := range []string{"ro/new", "locked"} {
		if _, err := p.Write(t.Context(), "alice", session, name, "", []byte("new")); !errors.Is(err, fault.Denied) {
			t.Errorf("Write(%s) = %v, want denied", name, err)
		}
	}
	if _, err := p.Read(t.Context(), "alice", session, "secret", ""); !errors.Is(err, fault.Denied) {
		t.Errorf("Read(secret) = %v, want denied", err)
	}
}

func TestWriteFailuresKeepTheOldFile(t *testing.T) {
	p, _, jobs := newProvider(t, 1000)
	session := open(t, p, "alice")
	home := filepath.Join(jobs.Root, "alice")
	must(t, os.MkdirAll(home, 0o755))
	must(t, os.WriteFile(home+"/f", []byte("old"), 0o644))
	// The runner loses the last byte of the input: the script must notice.
	short := &cutStdin{Jobs: jobs}
	q := sandbox.New(jobs.Jails, short, sandbox.Options{Prefix: "pg"})
	if _, err := q.Write(t.Context(), "alice", session, "f", "", []byte("new")); !errors.Is(err, fault.Unavailable) {
		t.Errorf("short input: %v", err)
	}
	if got, _ := os.ReadFile(home + "/f"); string(got) != "old" {
		t.Errorf("the old file holds %q", got)
	}
	noTemporaries(t, home)
	if _, err := os.Stat("/dev/full"); err == nil {
		_, err := p.Write(t.Context(), "alice", session, "/dev/full", "", []byte("x"))
		if err == nil || !strings.Contains(fault.HintOf(err), "disk is full") {
			t.Errorf("full disk: %v (hint %q)", err, fault.HintOf(err))
		}
	}
}

func TestHelperEnds(t *testing.T) {
	p, _, jobs := newProvider(t, 1000)
	session := open(t, p, "alice")
	for _, r := range []job.Result{
		{Outcome: job.TimedOut}, {Outcome: job.Cancelled}, {Outcome: job.Signalled, Signal: "SIGKILL"},
		{Outcome: job.Failed, Error: "cannot enter folder"}, {Outcome: job.Exited},
	} {
		jobs.Fake = func(job.Spec) (job.Execution, error, bool) { return job.Execution{Result: r}, nil, true }
		if _, err := p.Read(t.Context(), "alice", session, "f", ""); !errors.Is(err, fault.Unavailable) {
			t.Errorf("Read after %+v = %v", r, err)
		}
		if _, err := p.Write(t.Context(), "alice", session, "f", "", nil); !errors.Is(err, fault.Unavailable) {
			t.Errorf("Write after %+v = %v", r, err)
		}
	}
}

func TestMIME(t *testing.T) {
	p, _, _ := newProvider(t, 1000)
	session := open(t, p, "alice")
	for _, test := range []struct {
		data, mime string
		text       bool
	}{
		{"\x89PNG\r\n\x1a\n\x00\x00", "image/png", false},
		{"hello\n", "text/plain; charset=utf-8", true},
		{`{"a":1}`, "application/json", true},
		{"a\x00b", "application/octet-stream", false},
		{"\xff\xfe\xfd", "", false},
	} {
		if _, err := p.Write(t.Context(), "alice", session, "f", "", []byte(test.data)); err != nil {
			t.Fatal(err)
		}
		f, err := p.Read(t.Context(), "alice", session, "f", "")
		if err != nil || f.Text != test.text || (test.mime != "" && f.MIME != test.mime) || string(f.Data) != test.data {
			t.Errorf("%q: %+v, %v", test.data, f, err)
		}
	}
}
