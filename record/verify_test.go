package record

import (
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/fault"
)

// tamperedLog writes six records, the last one by the engine, lets sql change the file while the log is closed, and opens it again.
func tamperedLog(t *testing.T, o Options, change string) (*Log, []Record) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records.db")
	l := openLog(t, path, o)
	var all []Record
	for i := range 5 {
		d := note(NewThread("a"), alice, fmt.Sprint(i))
		if i > 0 {
			d.Parents = []string{all[0].ID}
			d.JudgedBy = &all[0].ID
		}
		all = append(all, mustAppend(t, l, d)...)
	}
	all = append(all, mustAppend(t, l, note(NewThread("a"), EngineDID, "last"))...)
	mustVerify(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, change)
	return openLog(t, path, o), all
}

// tamper does what somebody with write access to the file can do.
func tamper(t *testing.T, path, change string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, trigger := range []string{"records_stay", "records_remain", "records_follow", "head_remains"} {
		if _, err := db.Exec("DROP TRIGGER " + trigger); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(change); err != nil {
		t.Fatal(err)
	}
}

func TestTampering(t *testing.T) {
	for name, c := range map[string]struct {
		change   string
		sequence int64
		reason   string
	}{
		"a body":            {`UPDATE records SET body = '{"kind":"core.work.note.v1","text":"9"}' WHERE sequence = 3`, 3, "its content was changed"},
		"a body's spaces":   {`UPDATE records SET body = '{"kind":"core.work.note.v1", "text":"2"}' WHERE sequence = 3`, 3, "canonical"},
		"an actor":          {`UPDATE records SET actor = 'did:sync:user:eve' WHERE sequence = 3`, 3, "its content was changed"},
		"the last row gone": {`DELETE FROM records WHERE sequence = 6`, 6, "its tail is missing"},
		"two last rows":     {`DELETE FROM records WHERE sequence >= 5`, 5, "its tail is missing"},
		"all rows":          {`DELETE FROM records`, 1, "its tail is missing"},
		"all rows and head": {`DELETE FROM records; DELETE FROM head`, 0, ""}, // a new log, as far as the file tells
		"the head gone":     {`DELETE FROM head`, 1, "behind its back"},
		"last row and head": {`DELETE FROM records WHERE sequence = 6; UPDATE head SET sequence = 5, chain = (SELECT chain FROM records WHERE sequence = 5)`, 5, "not signed"},
		"a row gone":        {`DELETE FROM records WHERE sequence = 3`, 4, "missing"},
		"the first row":     {`DELETE FROM records WHERE sequence = 1`, 2, "missing"},
		"two rows swapped":  {`UPDATE records SET sequence = 99 WHERE sequence = 2; UPDATE records SET sequence = 2 WHERE sequence = 3; UPDATE records SET sequence = 3 WHERE sequence = 99`, 2, "link"},
		"two rows and clocks": {`UPDATE records SET sequence = 99 WHERE sequence = 5; UPDATE records SET sequence = 5 WHERE sequence = 6; UPDATE records SET sequence = 6 WHERE sequence = 99;
			UPDATE records SET chain = (SELECT chain FROM head) WHERE sequence = 6`, 5, "link"},
		"a parent later":   {`UPDATE records SET parents = id WHERE sequence = 2`, 2, "content"},
		"a signature gone": {`UPDATE records SET sig = NULL WHERE sequence = 6`, 6, "not signed"},
		"a forged one":     {`UPDATE records SET sig = zeroblob(64) WHERE sequence = 6`, 6, "signature"},
		"one on another":   {`UPDATE records SET sig = (SELECT sig FROM records WHERE sequence = 6) WHERE sequence = 2`, 2, "signature"},
		"a time":           {`UPDATE records SET created_at = 1 WHERE sequence = 4`, 4, "link"},
		"a judgement":      {`UPDATE records SET judged_by = NULL WHERE sequence = 4`, 4, "link"},
		"another judge":    {`UPDATE records SET judged_by = (SELECT id FROM records WHERE sequence = 5) WHERE sequence = 4`, 4, "judged by"},
		"a link":           {`UPDATE records SET chain = zeroblob(32) WHERE sequence = 4`, 4, "link"},
		"the head's link":  {`UPDATE head SET chain = zeroblob(32)`, 6, "head does not match"},
		"the head's sig":   {`UPDATE head SET sig = zeroblob(64)`, 6, "not signed"},
		"an id":            {`UPDATE records SET id = '` + strings.Repeat("0", 64) + `' WHERE sequence = 4`, 4, "its content was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := tamperedLog(t, Options{Key: testKey()}, c.change)
			report, err := l.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.sequence == 0 {
				if report.First != nil {
					t.Errorf("%+v", report.First)
				}
				return
			}
			if report.First == nil || report.First.Sequence != c.sequence || !strings.Contains(report.First.Reason, c.reason) {
				t.Errorf("first bad: %+v, want %d with %q", report.First, c.sequence, c.reason)
			}
		})
	}
}

// A row that was put in with the right hash, clock and link is unsound all the same: its head is not signed.
func TestForgedRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	l := openLog(t, path, Options{Key: testKey()})
	mustAppend(t, l, note(NewThread("a"), alice, "x"))
	l.Close()
	forger := openLog(t, path, Options{}) // writes a perfect row, and a head without a signature
	mustAppend(t, forger, note(NewThread("a"), alice, "forged"))
	forger.Close()
	for _, key := range []ed25519.PrivateKey{testKey(), ed25519.NewKeyFromSeed(make([]byte, 32))} {
		l = openLog(t, path, Options{Key: key})
		report, err := l.Verify(t.Context())
		if err != nil || report.First == nil || report.First.Sequence != 2 || !strings.Contains(report.First.Reason, "not signed") {
			t.Errorf("%+v, %v", report.First, err)
		}
	}
}

// A log whose tail is gone is not written to: the next head would cover it up.
func TestDamagedLogRefusesAppends(t *testing.T) {
	l, all := tamperedLog(t, Options{Key: testKey()}, `DELETE FROM records WHERE sequence = 6`)
	_, err := l.Append(t.Context(), note(NewThread("a"), alice, "x"))
	wantFault(t, err, fault.Internal, "damaged at sequence 6")
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("%v is not ErrDamaged", err)
	}
	if _, err := l.Get(t.Context(), all[0].ID); err != nil {
		t.Errorf("reading: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "link")
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(folder, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		o    Options
	}{
		"link": {link, Options{}}, "folder": {folder, Options{}}, "text": {text, Options{}}, "nowhere": {filepath.Join(folder, "a", "b"), Options{}},
		"short key": {filepath.Join(folder, "db"), Options{Key: testKey()[:5]}}, "engine": {filepath.Join(folder, "db"), Options{Engine: "engine"}},
	} {
		if l, err := Open(c.path, c.o); err == nil {
			l.Close()
			t.Errorf("%s was opened", name)
		}
	}
	path := filepath.Join(folder, "newer")
	openLog(t, path, Options{}).Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	_, err = Open(path, Options{})
	wantFault(t, err, fault.Unsupported, "version 99")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
