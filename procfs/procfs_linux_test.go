package procfs_test

import (
	"os"
	"os/exec"
	"testing"

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
