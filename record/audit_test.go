package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// openAudit opens audit files that are unlocked at the end of the test.
func openAudit(t testing.TB, folder string) *Audit {
	t.Helper()
	a, err := OpenAudit(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		names, _ := a.files()
		for _, name := range names {
			unlockAppendOnly(t, name)
		}
	})
	return a
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAuditFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	a := openAudit(t, folder)
	day := time.Date(2101, 3, 1, 12, 0, 0, 0, time.UTC)
	a.now = func() time.Time { return day }
	write := func(text string, want ...string) {
		t.Helper()
		if _, err := a.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := a.Sync(); err != nil {
			t.Fatal(err)
		}
		names, err := a.files()
		got := []string{}
		for _, name := range names[1:] { // the first is of the day the test ran
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "records-"), ".jsonl"))
		}
		if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("files %v (%v), want %v", got, err, want)
		}
	}
	write("a\n", "2101-03-01-000001")
	write("b\n", "2101-03-01-000001")
	a.max = 4
	write("c\n", "2101-03-01-000001", "2101-03-01-000002")
	day = day.Add(12 * time.Hour)
	write("d", "2101-03-01-000001", "2101-03-01-000002", "2101-03-02-000001")
	a.Close() // half a line is the last of its file
	write("e\n", "2101-03-01-000001", "2101-03-01-000002", "2101-03-02-000001", "2101-03-02-000002")
	day = day.Add(-100 * 24 * time.Hour) // the clock is set back
	a.Close()
	write("f\n", "2101-03-01-000001", "2101-03-01-000002", "2101-03-02-000001", "2101-03-02-000002")
	names, _ := a.files()
	for i, want := range []string{"", "a\nb\n", "c\n", "d", "e\nf\n"} {
		if got, err := os.ReadFile(names[i]); err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", names[i], got, err, want)
		}
	}
	if info, err := os.Stat(names[1]); err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	checkEnforcement(t, a.Enforcement(), last(names))
}

// checkEnforcement tries what the enforcement says cannot be done.
func checkEnforcement(t *testing.T, e Enforcement, name string) {
	t.Helper()
	err := os.Truncate(name, 0)
	if e.Enforced != (err != nil) || e.Reason == "" {
		t.Errorf("enforcement %+v, and cutting the file off gives %v", e, err)
	}
	if !e.Enforced {
		return
	}
	if err := os.Rename(name, name+".old"); err == nil {
		t.Error("the file could be renamed")
	}
	if err := os.Remove(name); err == nil {
		t.Error("the file could be removed")
	}
}

func TestFlagWorth(t *testing.T) {
	for _, c := range []struct {
		fstype string
		level  int
		want   bool
		text   string
	}{
		{"ufs", -1, true, "root can clear it"}, {"ufs", 2, true, "cannot be cleared"},
		{"zfs", 0, false, "cut, renamed or removed"}, {"zfs", 3, false, "cut, renamed or removed"}, // at every level
		{"tmpfs", 3, false, "does not stop"}, {"nfs", 0, false, "does not stop"},
	} {
		if got := flagWorth(c.fstype, c.level); got.Enforced != c.want || !strings.Contains(got.Reason, c.text) {
			t.Errorf("%s at %d: %+v", c.fstype, c.level, got)
		}
	}
}

// auditedLog has four records in two transactions, and the bytes of the database after each.
func auditedLog(t *testing.T) (path, folder string, all []Record) {
	t.Helper()
	top := t.TempDir()
	path, folder = filepath.Join(top, "records.db"), filepath.Join(top, "audit")
	a := openAudit(t, folder)
	for i := range 3 {
		l := openLog(t, path, Options{Key: testKey(), Audit: a})
		all = append(all, mustAppend(t, l, note(NewThread("a"), alice, fmt.Sprint(i)), note(NewThread("b"), alice, fmt.Sprint(i)))...)
		if report := mustVerify(t, l); report.Audited != int64(len(all)) || report.Unaudited != 0 {
			t.Errorf("%+v", report)
		}
		l.Close()
		copyFile(t, path, path+fmt.Sprint(i))
	}
	return path, folder, all
}

// An older copy of the whole database is sound in itself; the audit files give it away.
func TestAuditShowsOlderCopy(t *testing.T) {
	path, folder, all := auditedLog(t)
	copyFile(t, path+"0", path)
	l := openLog(t, path, Options{Key: testKey(), Audit: openAudit(t, folder)})
	report, err := l.Verify(t.Context())
	if err != nil || report.First == nil || report.First.Sequence != 3 || report.First.ID != all[2].ID {
		t.Errorf("%+v, %v", report.First, err)
	}
	if _, err := l.Append(t.Context(), note(NewThread("a"), alice, "x")); !errors.Is(err, ErrDamaged) {
		t.Errorf("appending: %v", err)
	}
	l.Close()
	// One that does not know the audit files covers it up with new records; the files still tell.
	other := openLog(t, path, Options{Key: testKey()})
	mustAppend(t, other, note(NewThread("a"), alice, "x"), note(NewThread("a"), alice, "y"), note(NewThread("a"), alice, "z"))
	other.Close()
	l = openLog(t, path, Options{Key: testKey(), Audit: openAudit(t, folder)})
	report, err = l.Verify(t.Context())
	if err != nil || report.First == nil || report.First.Sequence != 3 || report.First.ID != all[2].ID {
		t.Errorf("%+v, %v", report.First, err)
	}
}

// A crash between the audit file and the commit leaves lines without records at the tail; that is no damage, then or later.
func TestAuditAfterCrash(t *testing.T) {
	path, folder, all := auditedLog(t)
	copyFile(t, path+"1", path)
	a := openAudit(t, folder)
	l := openLog(t, path, Options{Key: testKey(), Audit: a})
	if report := mustVerify(t, l); report.Records != 4 || report.Audited != 4 {
		t.Errorf("%+v", report)
	}
	for i := range 3 {
		mustAppend(t, l, note(NewThread("a"), alice, fmt.Sprint("again", i)))
	}
	if report := mustVerify(t, l); report.Records != 7 || report.Audited != 7 {
		t.Errorf("%+v", report)
	}
	if _, err := a.Write([]byte(`{"sequence":8,"id":"` + all[0].ID[:10])); err != nil { // cut off in the middle of a line
		t.Fatal(err)
	}
	a.Close()
	mustVerify(t, l)
	mustAppend(t, l, note(NewThread("a"), alice, "more"))
	if report := mustVerify(t, l); report.Audited != 8 {
		t.Errorf("%+v", report)
	}
}

func TestAuditTampering(t *testing.T) {
	for name, c := range map[string]struct {
		change func(lines [][]byte) [][]byte
		want   int64
	}{
		"a line gone":       {func(l [][]byte) [][]byte { return append(l[:2:2], l[3:]...) }, 4},
		"a first line gone": {func(l [][]byte) [][]byte { return l[1:] }, 2},
		"garbage":           {func(l [][]byte) [][]byte { l[3] = []byte("garbage\n"); return l }, 4},
		"a field":           {func(l [][]byte) [][]byte { l[3] = bytes.Replace(l[3], []byte("{"), []byte(`{"x":1,`), 1); return l }, 4},
		"another link": {func(l [][]byte) [][]byte {
			l[3] = bytes.Replace(l[3], []byte(`"chain":"`), []byte(`"chain":"00`), 1)
			return l
		}, 4},
		"a line of nowhere": {func(l [][]byte) [][]byte {
			return append(l, bytes.ReplaceAll(l[5], []byte(`"after":4`), []byte(`"after":3`)))
		}, 6},
		"an actor": {func(l [][]byte) [][]byte {
			l[3] = bytes.Replace(l[3], []byte("did:sync:user:"), []byte("did:sync:user:not-"), 1)
			return l
		}, 4},
		"an id in a batch": {func(l [][]byte) [][]byte {
			l[4] = regexp.MustCompile(`"id":"....`).ReplaceAll(l[4], []byte(`"id":"0000`))
			return l
		}, 5},
		"a very long line": {func(l [][]byte) [][]byte { return append(l, bytes.Repeat([]byte("x"), 1<<20)) }, 7},
	} {
		t.Run(name, func(t *testing.T) {
			path, folder, _ := auditedLog(t)
			a := openAudit(t, folder)
			names, err := a.files()
			if err != nil || len(names) != 1 {
				t.Fatal(names, err)
			}
			a.Close()
			unlockAppendOnly(t, names[0])
			text, err := os.ReadFile(names[0])
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
			lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
			if err := os.WriteFile(names[0], bytes.Join(c.change(lines), nil), 0o600); err != nil {
				t.Fatal(err)
			}
			l := openLog(t, path, Options{Key: testKey(), Audit: a})
			report, err := l.Verify(t.Context())
			if err != nil || report.First == nil || report.First.Sequence != c.want {
				t.Errorf("%+v, %v, want %d", report.First, err, c.want)
			}
		})
	}
}

// A folder's name is no pattern, and one that cannot be read is not empty.
func TestAuditFolders(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit[1]*")
	a := openAudit(t, folder)
	l := newLog(t, Options{Audit: a})
	mustAppend(t, l, note(NewThread("a"), alice, "x"))
	if report := mustVerify(t, l); report.Audited != 1 {
		t.Errorf("%+v", report)
	}
	if err := os.Rename(folder, folder+" away"); err != nil {
		t.Fatal(err)
	}
	if report, err := l.Verify(t.Context()); err == nil {
		t.Errorf("the audit files are gone, and nothing is said of it: %+v", report)
	}
	if err := os.Rename(folder+" away", folder); err != nil { // where it is cleaned up
		t.Fatal(err)
	}
}

// Auditing may begin late; what it missed is counted.
func TestAuditBeginsLate(t *testing.T) {
	path, folder := filepath.Join(t.TempDir(), "records.db"), filepath.Join(t.TempDir(), "audit")
	l := openLog(t, path, Options{})
	mustAppend(t, l, note(NewThread("a"), alice, "x"))
	l.Close()
	l = openLog(t, path, Options{Audit: openAudit(t, folder)})
	mustAppend(t, l, note(NewThread("a"), alice, "y"))
	if report := mustVerify(t, l); report.Audited != 1 || report.Unaudited != 1 {
		t.Errorf("%+v", report)
	}
}

// What is being written while Verify reads is no damage.
func TestVerifyWhileAppending(t *testing.T) {
	l := newLog(t, Options{Key: testKey(), Audit: openAudit(t, filepath.Join(t.TempDir(), "audit"))})
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 3 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := l.Append(t.Context(), note(NewThread(fmt.Sprint(i)), alice, "x"), note(NewThread(fmt.Sprint(i)), EngineDID, "y")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for mustVerify(t, l).Records < 200 {
	}
	close(stop)
	callers.Wait()
	if report := mustVerify(t, l); report.Unaudited != 0 {
		t.Errorf("%+v", report)
	}
}

// A process that may not make its files append-only has it done for each file, and again after it failed.
func TestAuditSealedByAnother(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	var asked []string
	answer := errors.New("nobody is there")
	a := openAudit(t, folder)
	a.own = func(*os.File) (Enforcement, bool) { return Enforcement{Reason: "not by me"}, false }
	a.seal = func(file string) error {
		asked = append(asked, file)
		return answer
	}
	now := time.Now().Add(48 * time.Hour) // another file is begun
	a.now = func() time.Time { return now }
	a.locked = false
	write := func(wait time.Duration, want int) {
		t.Helper()
		now = now.Add(wait)
		if _, err := a.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		if len(asked) != want || asked[len(asked)-1] != last(mustFiles(t, a)) {
			t.Errorf("asked for %q, want %d times", asked, want)
		}
	}
	write(0, 1)
	if kept := a.Enforcement(); kept.Enforced || kept.Reason != "not by me; asking for it failed: nobody is there" {
		t.Errorf("%+v", kept)
	}
	write(sealAgain, 2)
	write(time.Second, 2)
	write(-time.Hour, 3) // a clock that is set back stops nothing
	write(48*time.Hour, 4)
	answer, a.own = nil, func(*os.File) (Enforcement, bool) { return Enforcement{}, len(asked) > 4 }
	write(sealAgain, 5)
	write(sealAgain, 5) // it is done
}

func mustFiles(t *testing.T, a *Audit) (bases []string) {
	t.Helper()
	names, err := a.files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		bases = append(bases, filepath.Base(name))
	}
	return bases
}

// A disk that refuses every write for hours leaves no file for each of them.
func TestAuditRefusedWrites(t *testing.T) {
	a := openAudit(t, filepath.Join(t.TempDir(), "audit"))
	refuse := func() {
		t.Helper()
		name := a.file.Name()
		a.file.Close()
		var err error
		if a.file, err = os.Open(name); err != nil { // not for writing
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("lost\n")); err == nil {
			t.Fatal("it was written")
		}
	}
	write := func(text string, want int) {
		t.Helper()
		if _, err := a.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if names := mustFiles(t, a); len(names) != want {
			t.Errorf("files %q, want %d", names, want)
		}
	}
	write("a\n", 1)
	refuse()
	write("b\n", 1)
	write("half", 1)
	refuse()
	write("c\n", 2)
	refuse()
	write("d\n", 2)
	for i, want := range []string{"a\nb\nhalf", "c\nd\n"} {
		names, _ := a.files()
		if got, err := os.ReadFile(names[i]); err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", names[i], got, err, want)
		}
	}
}
