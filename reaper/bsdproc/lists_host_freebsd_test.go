//go:build host

package bsdproc

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// settled waits until a reaper's list has as many entries as wanted.
func settled(t *testing.T, want uint32) Status {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		st, err := StatusOf(0)
		if err != nil {
			t.Fatal(err)
		}
		if st.Descendants == want {
			return st
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d descendants, want %d", st.Descendants, want)
		}
	}
}

// reapAll kills and waits for everything on this reaper's list.
func reapAll(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		if err := Kill(unix.SIGKILL, 0); err != nil {
			t.Error(err)
		}
		list, err := Pids(4096)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			_, _, _ = WaitNow(int(p.Pid), false) // what cannot be waited for yet is still there in the next round
		}
		if st, err := StatusOf(0); err == nil && st.Descendants == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("descendants are left")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Item 24: a list of process ids may be shorter than the status says, without a word: where there is no room, and while
// processes fork. It is therefore no proof; the status is.
func TestHostListIsNoProof(t *testing.T) {
	host(t)
	if err := Acquire(); err != nil {
		t.Fatal(err)
	}
	defer reapAll(t)
	sleepers := exec.Command("/bin/sh", "-c", "for i in 1 2 3 4 5 6 7; do sleep 100 & done; wait")
	if err := sleepers.Start(); err != nil {
		t.Fatal(err)
	}
	settled(t, 8)
	if list, err := Pids(3); err != nil || len(list) != 3 {
		t.Errorf("room for 3: %d entries, %v", len(list), err)
	}
	if list, err := Pids(64); err != nil || len(list) != 8 {
		t.Errorf("room for 64: %d entries, %v", len(list), err)
	}
	for range 4 {
		if err := exec.Command("/bin/sh", "-c", "(while :; do /usr/bin/true & /usr/bin/true & wait; done) & exit 0").Run(); err != nil {
			t.Fatal(err)
		}
	}
	looks, short := 0, 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); looks++ {
		before, err := StatusOf(0)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Pids(4096)
		if err != nil {
			t.Fatal(err)
		}
		after, err := StatusOf(0)
		if err != nil {
			t.Fatal(err)
		}
		if uint32(len(list)) < min(before.Descendants, after.Descendants) {
			short++
		}
		if before.Descendants == 0 || after.Descendants == 0 {
			t.Error("the status says that nothing is there, and eight sleep")
		}
	}
	t.Logf("%d of %d lists were shorter than the status before and after them", short, looks)
}

// jailedMark makes this program tell what a process in a jail learns, and end.
const jailedMark = "BSDPROC_JAILED_STATUS"

// Item 25: a process in a jail that asks for a reaper's status learns of its own reaper, and of no other.
func TestHostJailedStatus(t *testing.T) {
	if stranger, told := os.LookupEnv(jailedMark); told {
		own, err := StatusOf(0)
		if err != nil {
			t.Fatal(err)
		}
		pid, _ := strconv.Atoi(stranger)
		_, ofStranger := StatusOf(pid)
		_, ofInit := StatusOf(1)
		fmt.Printf("\nSEEN %d %v %d %v %v\n", own.Reaper, own.Owned(), own.Descendants, ofStranger != nil, ofInit != nil)
		return
	}
	host(t)
	if err := Acquire(); err != nil {
		t.Fatal(err)
	}
	defer reapAll(t)
	// A process outside the jail, which the one inside must not find.
	sleeper, err := exec.Command("/bin/sh", "-c", "sleep 101 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	const name = "pghosttest-status"
	made, err := exec.Command("/usr/sbin/jail", "-i", "-c", "name="+name, "path=/", "persist").Output()
	if err != nil {
		t.Fatal(err)
	}
	jid, err := strconv.Atoi(strings.TrimSpace(string(made)))
	if err != nil || jid <= 0 {
		t.Fatalf("jail(8) gave no number but %q", made)
	}
	defer func() {
		if err := RemoveJail(jid); err != nil {
			t.Error(err)
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", "^TestHostJailedStatus$")
	cmd.Env = append(os.Environ(), jailedMark+"="+strings.TrimSpace(string(sleeper)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Jail: jid}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	// This process's list has the asker and the sleeper outside the jail.
	want := fmt.Sprintf("SEEN %d false 2 true true", os.Getpid())
	if !strings.Contains(string(text), want) {
		t.Errorf("want %q in:\n%s", want, text)
	}
}
