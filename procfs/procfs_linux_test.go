package procfs_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"playground/procfs"
)

func TestOwnProcess(t *testing.T) {
	if ppid, ok := procfs.Parent(os.Getpid()); !ok || ppid != os.Getppid() {
		t.Errorf("Parent: got %d, %v, want %d", ppid, ok, os.Getppid())
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mine, _ := procfs.StartTime(os.Getpid())
	childs, ok := procfs.StartTime(cmd.Process.Pid)
	if !ok || childs < mine {
		t.Errorf("StartTime: child %d, %v; parent %d", childs, ok, mine)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, ok := procfs.StartTime(cmd.Process.Pid); ok {
		t.Error("StartTime of a process that was waited for")
	}
}

func TestChildless(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read x; sleep 60 & read y; kill $!; wait; read z")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	want := func(want bool) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			if got, err := procfs.Childless(cmd.Process.Pid); err == nil && got == want {
				return
			} else if time.Now().After(end) {
				t.Fatalf("got %v, %v, want %v", got, err, want)
			}
		}
	}
	want(true)
	in.Write([]byte("x\n"))
	want(false)
	in.Write([]byte("y\n"))
	want(true)
	if got, _ := procfs.Childless(os.Getpid()); got {
		t.Error("this process has a child")
	}
	if _, err := procfs.Childless(1 << 30); err == nil {
		t.Error("a process that is not there")
	}
}
