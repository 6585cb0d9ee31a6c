package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The attribute is the whole process's and would stay, so a child shows it.
func TestUndumpable(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestUndumpableChild$", "-test.v")
	cmd.Env = append(os.Environ(), "PLAYGROUND_UNDUMPABLE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "dumpable 0, core 0 0") {
		t.Errorf("child: %v\n%s", err, out)
	}
}

func TestUndumpableChild(t *testing.T) {
	if os.Getenv("PLAYGROUND_UNDUMPABLE") == "" {
		t.Skip("runs in a child")
	}
	if err := Undumpable(); err != nil {
		t.Fatal(err)
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("dumpable %d, core %d %d\n", dumpable, core.Cur, core.Max)
}
