package record

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// crashFolder tells a process started from the test binary that it is to append until it is killed.
const crashFolder = "RECORD_TEST_CRASH_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(crashFolder); folder != "" {
		if err := appendForever(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// appendForever writes a line to standard output for every append that was acknowledged: the ids, joined by spaces.
func appendForever(folder string) error {
	audit, err := OpenAudit(filepath.Join(folder, "audit"), nil)
	if err != nil {
		return err
	}
	l, err := Open(filepath.Join(folder, "records.db"), Options{Key: testKey(), Audit: audit})
	if err != nil {
		return err
	}
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for err == nil {
				drafts := []Draft{note(NewThread(fmt.Sprint(i)), alice, strings.Repeat("x", rand.IntN(3000)))}
				if i == 0 {
					drafts = append(drafts, note(NewThread("0"), EngineDID, "second"), note(NewThread("more"), alice, "third"))
				}
				records, err := l.Append(context.Background(), drafts...)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				ids := make([]string, len(records))
				for j, r := range records {
					ids[j] = r.ID
				}
				os.Stdout.WriteString(strings.Join(ids, " ") + "\n") // one write, which a pipe keeps whole
			}
		})
	}
	callers.Wait()
	return io.ErrUnexpectedEOF
}

// Whatever moment a process dies at, what it acknowledged is there, whole, and the log is sound.
func TestKilledWhileAppending(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	folder := t.TempDir()
	openAudit(t, filepath.Join(folder, "audit")).Close()
	acknowledged := map[string]bool{}
	for round := range rounds {
		for _, line := range killedChild(t, folder, 1+round%17) {
			for id := range strings.FieldsSeq(line) {
				acknowledged[id] = true
			}
		}
		if round%50 == 49 || round == rounds-1 {
			checkSurvivors(t, folder, acknowledged)
		}
	}
	t.Logf("%d records acknowledged over %d kills", len(acknowledged), rounds)
}

// killedChild returns the lines of a child that is killed after at least n of them.
func killedChild(t *testing.T, folder string, n int) (lines []string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashFolder+"="+folder)
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if lines = append(lines, scanner.Text()); len(lines) == n {
			child.Process.Kill() // and read on: what is in the pipe was acknowledged, too
		}
	}
	child.Wait()
	if len(lines) < n {
		t.Fatalf("a child ended by itself after %d appends: %s", len(lines), stderr.String())
	}
	return lines
}

func checkSurvivors(t *testing.T, folder string, acknowledged map[string]bool) {
	t.Helper()
	audit, err := OpenAudit(filepath.Join(folder, "audit"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer audit.Close()
	l := openLog(t, filepath.Join(folder, "records.db"), Options{Key: testKey(), Audit: audit})
	defer l.Close()
	report := mustVerify(t, l)
	records, err := l.List(t.Context(), ListQuery{})
	if err != nil || report.Unaudited != 0 || report.Records != int64(len(records)) {
		t.Fatalf("%+v, %d records, %v", report, len(records), err)
	}
	stored := map[string]bool{}
	for i, r := range records {
		stored[r.ID] = true
		if r.Actor == EngineDID && (i == 0 || i+1 == len(records) || records[i+1].Thread != NewThread("more")) {
			t.Errorf("a transaction is there in part, at sequence %d", r.Sequence)
		}
	}
	for id := range acknowledged {
		if !stored[id] {
			t.Errorf("record %s was acknowledged and is gone", id)
		}
	}
}
