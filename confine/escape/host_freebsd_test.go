//go:build host

package escape_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"playground/confine"
	"playground/confine/escape"
	"playground/confine/keeper"
	"playground/internal/workertest"
)

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }

// TestHostSuite is the escape suite in a worker of root's daemon; the doors are another test's.
func TestHostSuite(t *testing.T) {
	if os.Getenv("PLAYGROUND_HOST_TESTS") != "1" {
		t.Skip("set PLAYGROUND_HOST_TESTS=1 on a FreeBSD host that may be lost")
	}
	k, err := keeper.New(keeper.Options{Program: workertest.Program(t, workertest.Good), UIDBase: 910_000, Prefix: "pghosttest"})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close(context.Background())
	dir := t.TempDir()
	secret, socket := filepath.Join(dir, "hub.db"), filepath.Join(dir, "s")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	local, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	victim := exec.Command("/bin/sleep", "300")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer victim.Wait()
	defer victim.Process.Kill()
	line, err := json.Marshal(map[string]any{"plan": escape.Plan{
		Shape: "root", Processes: []int{os.Getpid(), victim.Process.Pid}, Ports: []int{tcp.Addr().(*net.TCPAddr).Port}, Sockets: []string{socket},
		Files: []string{secret, "/etc/passwd", "/etc/master.passwd"}, Folders: []string{dir, "/tmp", "/var/db"}, Programs: []string{"/bin/sh", "/usr/bin/su"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := k.Start(t.Context(), "th_escape", confine.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(w.Stdin, "%s\n", line)
	w.Stdin.Close()
	var rows []escape.Row
	for out := bufio.NewScanner(w.Stdout); out.Scan(); {
		if row, ok := escape.RowOf(out.Text()); ok {
			rows = append(rows, row)
		}
	}
	<-w.Done()
	var table bytes.Buffer
	if err := escape.Write(&table, rows); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	if len(rows) < 100 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		if !row.Pass {
			t.Errorf("%+v", row)
		}
	}
	if exit := w.Exit(); exit.Status != 0 || !exit.Cleanup.Proven {
		t.Errorf("exit %+v", exit)
	}
}
