package kit_test

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowClock stands for date(1) of a host where time flies: whatever is done between two looks takes so many seconds.
func (h host) slowClock(seconds int) {
	h.Helper()
	h.write("stub/clock", "1000000000\n", 0o644)
	h.write("bin/date", fmt.Sprintf("#!/bin/sh\n[ \"$*\" = +%%s ] || exec /bin/date \"$@\"\nnow=$(cat \"$STUB/clock\")\necho $((now + %d)) >\"$STUB/clock\"\necho \"$now\"\n", seconds), 0o755)
}

// A slow host is given more time by itself, by all that waits: the script, the client, the suite and its rc scripts.
func TestPatienceIsMeasured(t *testing.T) {
	h := newHost(t)
	h.slowClock(1)
	out, code := h.run("--only", "acceptance", "--patience", "")
	if code != 2 || !strings.Contains(out, "needs a number") {
		t.Errorf("no number: exit %d\n%s", code, out)
	}
	cmd := h.command("--only", "acceptance", "--patience", "1")
	cmd.Args = cmd.Args[:len(cmd.Args)-4] // neither --patience nor what follows it
	cmd.Args = append(cmd.Args, "--results", h.results)
	text, err := cmd.CombinedOutput()
	out = string(text)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	h.wantTAP(out)
	h.nothingLeft(out)
	if !strings.Contains(out, "# time limits are multiplied by 10: this host starts 3 programs in 3 s") || !strings.Contains(h.read("stub/log"), "-patience 10 ") {
		t.Errorf("patience was not measured:\n%s", out)
	}
	if text := h.read("stub/config-onestart"); !strings.Contains(text, "proof_deadline = \"150s\"") {
		t.Errorf("configuration:\n%s", text)
	}
	if text := h.read("stub/rcconf"); !strings.Contains(text, "playground_ready_timeout=300\nplayground_stop_timeout=600\nplayground_status_timeout=20\n") {
		t.Errorf("what rc.subr reads:\n%s", text)
	}
}

// What there is no time for is skipped and said, and the host is cleared up all the same.
func TestWithin(t *testing.T) {
	h := newHost(t)
	h.slowClock(8)
	out, code := h.run("--within", "10")
	h.wantTAP(out)
	h.nothingLeft(out)
	s := h.summary()
	if code != 2 || s.End != "out of time" || s.Failed != 0 || !strings.Contains(out, "- leftovers: files") ||
		!regexp.MustCompile(`(?m)^ok \d+ - tests: not run # SKIP the 10 minutes of --within are over`).MatchString(out) || !strings.Contains(out, "- start: playground ready |") {
		t.Errorf("exit %d, %+v\n%s", code, s, out)
	}
}

// A client that hangs takes no more time than there is, and is said to be cut off, not to have failed.
func TestWithinCutsOff(t *testing.T) {
	h := newHost(t, "STUB_HANG=1")
	// Everything before the client takes 397 of the 400 s that --within 10 leaves for checks.
	h.write("bin/date", "#!/bin/sh\n[ \"$*\" = +%s ] || exec /bin/date \"$@\"\nif grep -q 'template list' \"$STUB/log\"; then echo 1000000397; else echo 1000000000; fi\n", 0o755)
	out, code := h.run("--within", "10", "--only", "acceptance")
	h.wantTAP(out)
	h.nothingLeft(out)
	if code != 2 || !strings.Contains(out, "- acceptance: the client goes to its end # SKIP the 10 minutes of --within were over") || h.summary().Failed != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// A client that is stubborn takes no more than half of the time that is kept for clearing up.
func TestWithinKeepsTimeToClearUp(t *testing.T) {
	h := newHost(t)
	h.write("bin/timeout", "#!/bin/sh\necho \"timeout $*\" >>\"$STUB/log\"\nexec /usr/bin/timeout \"$@\"\n", 0o755)
	for within, grace := range map[string]string{"0": "300", "10": "100"} {
		h.write("stub/log", "", 0o644)
		out, code := h.run("--within", within, "--only", "acceptance")
		if code != 0 || !regexp.MustCompile(`(?m)^timeout --foreground -k `+grace+` \d+ env `).MatchString(h.read("stub/log")) {
			t.Errorf("within %s: exit %d\n%s\n%s", within, code, out, h.read("stub/log"))
		}
	}
}

// Whoever is killed leaves a summary of what was seen until then.
func TestSummaryAfterEachGroup(t *testing.T) {
	h := newHost(t, "STUB_HANG=1")
	cmd := h.command("--only", "acceptance")
	h.must(cmd.Start())
	defer func() { _ = cmd.Wait() }()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(h.read("stub/log"), "hanging"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			break
		}
	}
	if s := h.summary(); s.End != "cut off after group template" || s.Passed == 0 {
		t.Errorf("%+v", s)
	}
	h.must(cmd.Process.Signal(syscall.SIGTERM))
}

// Too little room on one of the disks is found before anything is made; two folders on one disk share what it has.
func TestRoomOnDisk(t *testing.T) {
	h := newHost(t)
	h.write("bin/df", "#!/bin/sh\necho header; echo \"/dev/one 100 50 1000000 1% /\"\n", 0o755)
	out, code := h.run()
	if code != 1 || !strings.Contains(out, "room on disk | expected: enough for 600 MiB in /var/db, 600 in /var/tmp and 300 in /usr | seen: /var/db: 976 MiB on /dev/one (too little)") {
		t.Errorf("exit %d\n%s", code, out)
	}
	h.write("stub/mounts", "/dev/ada0p2 / ufs rw,noexec 1 1\n", 0o644)
	if out, code := h.run(); code != 1 || !strings.Contains(out, "neither is mounted with noexec | seen: noexec: /var/db /var/tmp\n") {
		t.Errorf("noexec: exit %d\n%s", code, out)
	}
	h.write("stub/mounts", "", 0o644)
	h.write("bin/df", "#!/bin/sh\necho header; echo \"/dev/${2##*/} 100 50 700000 1% /\"\n", 0o755)
	if out, code := h.run("--only", "install"); code != 0 || strings.Contains(out, "too little") {
		t.Errorf("three disks: exit %d\n%s", code, out)
	}
}
