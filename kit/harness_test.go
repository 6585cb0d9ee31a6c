package kit_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A host is a folder that stands for a FreeBSD host's root, and a folder of stubs that stand for its commands. Each stub writes
// its command line to a log, so that a test sees what the scripts did.
type host struct {
	*testing.T
	dir, root, kit, results string
	env                     []string
}

// stubs are the commands of FreeBSD that Linux does not have, or that must not be the real ones. What is not in here is the
// host's own: sh, awk, sed, grep, sort, tee, mkfifo and the like are POSIX.
var stubs = map[string]string{
	"uname":    `case "$1" in -s) echo FreeBSD;; -r) echo "${STUB_RELEASE:-14.2-RELEASE}";; -p|-m) echo amd64;; esac`,
	"id":       `echo "${STUB_UID:-0}"`,
	"hostname": `echo stubhost`,
	"date":     `case "$*" in "-u +%Y") echo "${STUB_YEAR:-2026}";; *) PATH=/usr/bin:/bin exec date "$@";; esac`,
	"sysctl": `case "$*" in
*kern.racct.enable) echo "${STUB_RACCT:-1}";; *security.jail.jailed) echo 0;; *hw.physmem) echo 1073741824;; *hw.ncpu) echo 2;;
*kern.securelevel) echo "${STUB_LEVEL:--1}";; esac`,
	"df":        `echo header; echo "/dev/ada0p2 100 50 9000000 1% /"`,
	"kldstat":   `[ "$3" != zfs ]`,
	"jls":       `cat "$STUB/jails" 2>/dev/null; exit 0`,
	"jail":      `[ "$1" != -R ] || sed -i "/^$2\$/d" "$STUB/jails"`,
	"jexec":     ``,
	"sockstat":  `echo USER COMMAND`,
	"mount":     `cat "$STUB/mounts" 2>/dev/null; exit 0`,
	"umount":    `sed -i "\\# $2 #d" "$STUB/mounts"`,
	"rctl":      `[ $# -gt 0 ] || cat "$STUB/rules" 2>/dev/null; exit 0`,
	"devfs":     `exit 0`,
	"ifconfig":  `case "$*" in *-alias) sed -i "/inet $3 /d" "$STUB/lo0";; *) echo "	inet 127.0.0.1 netmask 0xff000000"; cat "$STUB/lo0" 2>/dev/null; exit 0;; esac`,
	"kldload":   ``,
	"kldunload": ``,
	"chflags":   ``,
	"chown":     ``,
	"pwd_mkdb":  ``,
	"zpool":     ``,
	"zfs": `case "$1" in
list) case "$*" in *sandboxes*|*refquota*) [ ! -f "$STUB/tenant" ] || echo "tank/pgkit/sandboxes/x 1G";; *" -t filesystem "*) ;; *"name tank") echo tank;; esac;;
esac`,
	"rcorder":     `case "$*" in *"nojail"*) echo /x/LOGIN;; *) for name in NETWORKING playground_jaild securelevel playground_reaperd playground_facultyd playground ${STUB_ORDER:-}; do echo "/x/$name"; done;; esac`,
	"procstat":    ``,
	"daemon":      ``,
	"protect":     ``,
	"pwait":       ``,
	"jot":         ``,
	"find":        `case " $* " in *" -flags "*) cat "$STUB/loose" 2>/dev/null; exit 0;; esac; PATH=/usr/bin:/bin exec find "$@"`,
	"pgrep":       `exit 1`,
	"proccontrol": `echo disabled`,
	"pkg":         `exit 1`,
	"pw":          `case "$1" in usershow|groupshow) grep -qx "$*" "$STUB/accounts" 2>/dev/null;; useradd) echo "usershow -n $3" >>"$STUB/accounts";; groupadd) echo "groupshow -n $3" >>"$STUB/accounts";; userdel) sed -i "/usershow -n $3/d" "$STUB/accounts";; groupdel) sed -i "/groupshow -n $3/d" "$STUB/accounts";; esac`,
	"stat":        `awk -v path="$3" -v root="$KIT_TEST_ROOT" 'root $5 == path { print $2, $3, $4 }' "$STUB/files.list"`,
	"install":     `while [ $# -gt 2 ]; do shift; done; cp "$1" "$2"`,
	"tar":         `case "$*" in *-x*.pkg*) cp -R "$STUB/stage/." "$4";; *-c*) echo archive;; *) mkdir -p "$7/bin"; cat >/dev/null;; esac`,
	"playground":  ``,
	"ps":          `case "$*" in *command=*-p*) echo "$STUB_RUNNING";; *stat=*) kill -0 "${*##* }" 2>/dev/null && echo S;; *user=*) [ "${*##* }" = 11 ] && echo playground || echo root;; *) cat "$STUB/processes" 2>/dev/null; echo "  1 /sbin/init";; esac`,
	"service": `config="$KIT_TEST_ROOT/usr/local/etc/playground/playground.toml"
case "$2" in
onestart) cp -n "$config" "$STUB/config-onestart" 2>/dev/null; cat "$KIT_TEST_ROOT/usr/local/etc/rc.conf.d/$1" >>"$STUB/rcconf" 2>/dev/null;;
onerestart) cp "$config" "$STUB/config-onerestart" 2>/dev/null;;
esac
[ -z "${STUB_STOPS_STALE:-}" ] || [ "$2" != onestop ] || [ ! -f "$KIT_TEST_ROOT/var/run/$1.pid" ] || kill "$(cat "$KIT_TEST_ROOT/var/run/$1.pid")"
case "$1 $2" in
-e*) echo /etc/rc.d/cron; [ -z "${STUB_ENABLED:-}" ] || echo "$STUB_ENABLED";;
*rcvar) echo "$1_enable=NO";;
*onestart) [ -f "$config" ] || { echo "playground.toml is not readable"; exit 1; }
	[ "$1" != playground_facultyd ] || { echo "faculty.definitions names no file"; exit 1; }
	[ -z "${STUB_START:-}" ] || { echo "$STUB_START" >&2; exit 1; }
	echo "pid" >"$STUB/up"; echo "pgkit-left" >"$STUB/jails.up"
	for name in playground playground_jaild playground_reaperd; do printf 77 >"$KIT_TEST_ROOT/var/run/$name.pid"; done;;
*onerestart) echo "pid" >"$STUB/up";;
"playground_facultyd onestop"|"playground_facultyd onestatus") exit 1;;
*onestop) rm -f "$STUB/up";;
*onestatus) [ -f "$STUB/up" ];;
esac`,
}

// suiteTool stands for the installed operator's tool.
const suiteTool = `#!/bin/sh
echo "playground $*" >>"$STUB/log"
case "$*" in
version) echo 1.0;;
*status*) printf 'DAEMON STATE PID\nplaygroundd up 11\nplayground-jaild up 12\nplayground-reaperd up 13\n';;
*"user attach kit-boot"*) echo pgkit-kit-boot >>"$STUB/jails";;
*"user destroy --force kit-boot"*) sed -i /kit-boot/d "$STUB/jails";;
*"template list"*) echo base;;
*doctor*) echo "PASS root"; exit 0;;
esac
`

// clientStub stands for the acceptance client.
const clientStub = `#!/bin/sh
echo "accept $*" >>"$STUB/log"
case "$*" in
*acceptance) echo "ok 1 - exec: works | expected: exit 0 | seen: exit 0"
	echo "ok 2 - zz # SKIP not here"
	echo "${STUB_CLIENT:-ok 3 - files: \"quoted\" | expected: a\\b | seen: fine}"
	[ -z "${STUB_HANG:-}" ] || { echo hanging >>"$STUB/log"; exec sleep 60; }
	echo "1..3"; case "${STUB_CLIENT:-}" in "not ok"*) exit 1;; esac;;
*" bench") while [ $# -gt 0 ]; do [ "$1" != -json ] || printf '{\n  "exec_true": {}\n}\n' >"$2"; shift; done; echo "ok 1 - bench: x | expected: 1 | seen: 1"; echo "1..1";;
*" script") echo "[]";;
*" faculty") echo "# by the client" >>"$KIT_TEST_ROOT/usr/local/etc/playground/playground.toml"; echo "${STUB_FACULTY:-ok 1 - faculty: x | expected: 1 | seen: 1}"; echo "1..1";;
*crash) echo "ok 1 - crash: x | expected: 1 | seen: 1"; exit 3;;
*) echo "ok 1 - other: x | expected: 1 | seen: 1"; echo "1..1";;
esac
`

func newHost(t *testing.T, env ...string) host {
	t.Helper()
	for _, tool := range []string{"awk", "comm", "mkfifo", "timeout", "tee"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	h := host{T: t, dir: t.TempDir()}
	h.root, h.kit, h.results = filepath.Join(h.dir, "root"), filepath.Join(h.dir, "the kit"), filepath.Join(h.dir, "results")
	for _, dir := range []string{"root/var/db", "root/var/run", "root/var/tmp", "root/usr", "bin", "the kit/bin", "the kit/packages", "the kit/tests/jail", "stub/stage/usr/local/sbin",
		"stub/stage/usr/local/etc/rc.d", "stub/stage/usr/local/etc/playground"} {
		h.must(os.MkdirAll(filepath.Join(h.dir, dir), 0o755))
	}
	for name, body := range stubs {
		h.write("bin/"+name, "#!/bin/sh\necho \""+name+" $*\" >>\"$STUB/log\"\n"+body+"\n", 0o755)
	}
	for _, name := range []string{"accept.sh", "lib.sh", "checks.sh", "rc.sh", "teardown.sh", "install.sh", "uninstall.sh", "kit"} {
		text, err := os.ReadFile(name)
		h.must(err)
		h.write("the kit/"+name, string(text), 0o755)
	}
	h.write("the kit/kit.conf", "version=1.0\narch=amd64\n", 0o644)
	h.write("the kit/bin/accept", clientStub, 0o755)
	h.write("the kit/tests.list", "jail host\nring plain\ninternal/e2e source\n", 0o644)
	h.write("the kit/tests/jail/run.test", "#!/bin/sh\necho \"tests $PLAYGROUND_HOST_TESTS ${PLAYGROUND_STANDIN##*/}\" >>\"$STUB/log\"\necho \"--- ${STUB_TEST:-PASS}: TestX\"\n", 0o755)
	h.write("the kit/packages/playground-1.0-freebsd14-amd64.pkg", "", 0o644)
	scripts := ""
	for _, name := range []string{"playground", "playground_jaild", "playground_reaperd", "playground_facultyd"} {
		scripts += "file 0555 root wheel /usr/local/etc/rc.d/" + name + "\n"
		h.write("stub/stage/usr/local/etc/rc.d/"+name, "#!/bin/sh\necho \"rc.d ${0##*/} $* enabled=$playground_enable\" >>\"$STUB/log\"\necho pid >\"$STUB/up\"\n", 0o755)
	}
	list := "file 0755 root wheel /usr/local/sbin/playground\nfile 0755 root wheel /usr/local/sbin/playgroundd\n" + scripts +
		"sample 0640 root playground /usr/local/etc/playground/playground.toml.sample\ndir 0711 root wheel /var/db/playground\ndir 0750 root playground /var/log/playground\n"
	h.write("the kit/files.list", list, 0o644)
	h.write("stub/files.list", list, 0o644)
	h.write("stub/stage/usr/local/sbin/playground", suiteTool, 0o755)
	h.write("stub/stage/usr/local/sbin/playgroundd", "#!/bin/sh\n", 0o755)
	h.write("stub/stage/usr/local/etc/playground/playground.toml.sample", "# sample\n", 0o644)
	h.write("stub/log", "", 0o644)
	h.env = append([]string{"STUB=" + filepath.Join(h.dir, "stub"), "KIT_TEST_ROOT=" + h.root, "KIT_TEST_PATH=" + filepath.Join(h.dir, "bin") + ":" + os.Getenv("PATH"),
		"PATH=" + os.Getenv("PATH"), "HOME=/"}, env...)
	return h
}

func (h host) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h host) write(path, text string, mode os.FileMode) {
	h.Helper()
	h.must(os.WriteFile(filepath.Join(h.dir, path), []byte(text), mode))
}

func (h host) read(path string) string {
	text, _ := os.ReadFile(filepath.Join(h.dir, path)) // a missing file is an empty one here
	return string(text)
}

func (h host) command(args ...string) *exec.Cmd {
	if !slices.Contains(args, "--list") {
		args = append(args, "--results", h.results)
	}
	if !slices.Contains(args, "--list") && !slices.Contains(args, "--patience") {
		args = append(args, "--patience", "1") // whatever else this machine is doing
	}
	cmd := exec.Command(shell(), append([]string{filepath.Join(h.kit, "accept.sh")}, args...)...)
	cmd.Env = h.env
	return cmd
}

// shell is what runs the scripts: KIT_SHELL=/path/to/another tries another one.
func shell() string { return cmp.Or(os.Getenv("KIT_SHELL"), "/bin/sh") }

// run runs accept.sh and returns what it printed and its exit status.
func (h host) run(args ...string) (string, int) {
	h.Helper()
	out, err := h.command(args...).CombinedOutput()
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		h.Fatal(err)
	}
	return string(out), code
}

// A summary is summary.json.
type summary struct {
	Kit  struct{ Version, Arch string }
	Host struct {
		Release  string
		Patience int
	}
	End, Only               string
	Passed, Failed, Skipped int
	Checks                  []struct{ Result, Name, Expected, Seen string }
	Bench                   json.RawMessage
}

func (h host) summary() summary {
	h.Helper()
	var s summary
	text := h.read("results/summary.json")
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		h.Fatalf("summary.json: %v\n%s", err, text)
	}
	if len(s.Checks) != s.Passed+s.Failed+s.Skipped {
		h.Errorf("%d checks, but %d passed, %d failed, %d skipped", len(s.Checks), s.Passed, s.Failed, s.Skipped)
	}
	return s
}

// nothingLeft checks that the stand-in of the host is as it was.
func (h host) nothingLeft(out string) {
	h.Helper()
	var left []string
	h.must(filepath.WalkDir(h.root, func(path string, entry os.DirEntry, err error) error {
		relative, _ := filepath.Rel(h.root, path)
		if err == nil && !slices.Contains([]string{".", "var", "var/db", "var/run", "var/tmp", "usr", "usr/local"}, relative) {
			left = append(left, relative)
		}
		return err
	}))
	if len(left) > 0 || h.read("stub/up") != "" || strings.TrimSpace(h.read("stub/jails")+h.read("stub/mounts")+h.read("stub/accounts")) != "" {
		h.Errorf("left: %v %q %q %q %q\n%s", left, h.read("stub/up"), h.read("stub/jails"), h.read("stub/mounts"), h.read("stub/accounts"), out)
	}
}

var tapLine = regexp.MustCompile(`^(ok|not ok) (\d+) - (.* \| expected: .* \| seen: .+|.* # SKIP .+)$`)

// wantTAP checks the form of the output.
func (h host) wantTAP(out string) {
	h.Helper()
	count := 0
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "1..") {
			continue
		}
		count++
		if m := tapLine.FindStringSubmatch(line); m == nil || m[2] != fmt.Sprint(count) {
			h.Errorf("line %q is not check %d in TAP", line, count)
		}
	}
	if !strings.Contains(out, fmt.Sprintf("\n1..%d\n", count)) {
		h.Errorf("no plan 1..%d", count)
	}
	if h.read("results/tap.txt") != out {
		h.Error("tap.txt differs from what was printed")
	}
}

func TestList(t *testing.T) {
	h := newHost(t)
	out, code := h.run("--list")
	for _, group := range []string{"preconditions", "acceptance", "work", "escape", "faculty", "adversaries-1", "adversaries-16", "crash", "rc", "bench", "leftovers"} {
		if code != 0 || !strings.Contains(out, "\n"+group+" ") && !strings.HasPrefix(out, group+" ") {
			t.Errorf("--list (exit %d) lacks %s:\n%s", code, group, out)
		}
	}
	if log := h.read("stub/log"); log != "" {
		t.Errorf("--list ran %s", log)
	}
}

func TestWholeRun(t *testing.T) {
	h := newHost(t)
	out, code := h.run()
	h.wantTAP(out)
	h.nothingLeft(out)
	s := h.summary()
	// The client's "crash" ends without a plan, which must not look like success.
	if code != 1 || s.Failed != 1 || s.End != "complete" || s.Kit.Version != "1.0" || s.Host.Release != "14.2-RELEASE" || s.Host.Patience != 1 {
		t.Errorf("exit %d, summary %+v\n%s", code, s, out)
	}
	for _, want := range []string{"exec: works", `files: "quoted"`, "tests: jail", "faculty: x", "rc: at boot playground_jaild comes before securelevel", "rc: a stop with stale pid files ends nobody else's process",
		"rc: service playground_facultyd onestart without workers that are defined is refused", "rc: boot: its jail is there", "crash: the client goes to its end", "leftovers: files", "zfs: storage on ZFS"} {
		if !slices.ContainsFunc(s.Checks, func(c struct{ Result, Name, Expected, Seen string }) bool { return c.Name == want && c.Seen != "" }) {
			t.Errorf("no check %q", want)
		}
	}
	log := h.read("stub/log")
	for _, want := range []string{"accept -playground", "-at-once 16 adversaries", "survive -- service playground onerestart", " work\n", " escape\n", "-notebook " + h.kit + "/faculty/notebook faculty\n", " drain\n",
		"rc.d playground_reaperd faststart enabled=YES", "tests 1 standin\n", "service playground onestop", "template create base"} {
		if !strings.Contains(log, want) {
			t.Errorf("never ran %q", want)
		}
	}
	if text := h.read("stub/config-onestart"); !strings.Contains(text, "securelevel_min = -1\n") || !strings.Contains(text, "proof_deadline = \"15s\"") || strings.Contains(text, "term_grace") {
		t.Errorf("configuration at the start:\n%s", text)
	}
	if text := h.read("stub/config-onerestart"); !strings.Contains(text, "term_grace = \"0s\"\n\n[resources]\nswap = 0\n") {
		t.Errorf("configuration for adversaries:\n%s", text)
	}
	for _, not := range []string{"kern.securelevel=", " bench", "sysrc"} {
		if strings.Contains(log, not) {
			t.Errorf("ran %q", not)
		}
	}
}

func TestOnly(t *testing.T) {
	h := newHost(t)
	out, code := h.run("--only", "acceptance")
	h.wantTAP(out)
	h.nothingLeft(out)
	if log := h.read("stub/log"); code != 0 || !strings.Contains(log, " acceptance\n") || strings.Contains(log, "adversaries") || strings.Contains(log, "tests 1") {
		t.Errorf("exit %d\n%s\n%s", code, log, out)
	}
	if s := h.summary(); s.Only != "acceptance" {
		t.Errorf("summary %+v", s)
	}
	if out, code := h.run("--only", "nonsense"); code != 2 || !strings.Contains(out, "no group") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestBench(t *testing.T) {
	h := newHost(t)
	out, code := h.run("--only", "bench")
	if s := h.summary(); code != 0 || !bytes.Contains(s.Bench, []byte("exec_true")) {
		t.Errorf("exit %d, bench %s\n%s", code, s.Bench, out)
	}
}

func TestFailureTellsItsCause(t *testing.T) {
	h := newHost(t, "STUB_CLIENT=not ok 3 - files: read | expected: 10 bytes | seen: 9 bytes")
	out, code := h.run("--only", "acceptance")
	h.wantTAP(out)
	h.nothingLeft(out)
	if code != 1 || !strings.Contains(out, "- files: read | expected: 10 bytes | seen: 9 bytes") || h.summary().Failed != 1 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestFailedStart(t *testing.T) {
	h := newHost(t, "STUB_START=racct: resource accounting is off")
	out, code := h.run()
	h.wantTAP(out)
	h.nothingLeft(out)
	if code != 1 || !strings.Contains(out, "racct: resource accounting is off") || !strings.Contains(out, "# SKIP group start failed") || strings.Contains(h.read("stub/log"), "accept -playground") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestPreconditions(t *testing.T) {
	for name, c := range map[string]struct{ env, want string }{
		"racct":   {"STUB_RACCT=0", "kern.racct.enable=1"},
		"release": {"STUB_RELEASE=13.1-RELEASE", "13.2 or later"},
		"user":    {"STUB_UID=1001", "uid 1001"},
		"clock":   {"STUB_YEAR=1970", "clock (else: date -u YYYYMMDDhhmm) | expected: 2025 or later"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, c.env)
			out, code := h.run()
			h.wantTAP(out)
			h.nothingLeft(out)
			if code != 1 || !strings.Contains(out, "not ok") || !strings.Contains(out, c.want) || h.summary().End != "preconditions failed" {
				t.Errorf("exit %d\n%s", code, out)
			}
			if log := h.read("stub/log"); strings.Contains(log, "pw useradd") || strings.Contains(log, "service") {
				t.Errorf("it went on:\n%s", log)
			}
		})
	}
}

// The order of a boot is looked at, and a wrong one told.
func TestWrongBootOrder(t *testing.T) {
	h := newHost(t, "STUB_ORDER=playground_jaild")
	out, code := h.run("--only", "rc")
	h.wantTAP(out)
	h.nothingLeft(out)
	if code != 1 || !strings.Contains(out, "not ok") || !strings.Contains(out, "- rc: at boot playground_jaild comes before securelevel | expected: in this order | seen: 1:NETWORKING 2:playground_jaild 3:securelevel") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// A script that is enabled by itself, and tools that show nothing, are found out.
func TestEnabledByItself(t *testing.T) {
	h := newHost(t, "STUB_ENABLED=/usr/local/etc/rc.d/playground_jaild")
	h.write("bin/rcorder", "#!/bin/sh\nexit 1\n", 0o755)
	out, code := h.run("--only", "rc")
	for _, want := range []string{"none is enabled without being asked to | expected: others and none of them in service -e | seen: /usr/local/etc/rc.d/playground_jaild others",
		"inside a jail none of them is started | expected: LOGIN and none of them in rcorder -s nojail | seen: nothing"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q\n%s", code, want, out)
		}
	}
}

// A test program that only skips shows nothing, and a kit without a list of them neither.
func TestEmptyTests(t *testing.T) {
	h := newHost(t, "STUB_TEST=SKIP")
	out, code := h.run("--only", "tests")
	if code != 1 || !strings.Contains(out, "- tests: jail shows something | expected: 1 or more tests passed | seen: none, and 1 skipped\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	// What is skipped because the securelevel would make it permanent is no fault of the host's.
	h = newHost(t, "STUB_TEST=SKIP", "STUB_LEVEL=1")
	if out, code := h.run("--only", "tests"); code != 0 || !strings.Contains(out, "jail: 0 tests passed, 1 skipped") {
		t.Errorf("at securelevel 1: exit %d\n%s", code, out)
	}
	h = newHost(t)
	h.write("the kit/tests.list", "", 0o644)
	h.write("the kit/files.list", "", 0o644)
	out, code = h.run("--only", "tests", "--only", "install")
	if code != 1 || !strings.Contains(out, "files.list names no file") || !strings.Contains(out, "all programs of the list were run | expected: 1 or more | seen: 0\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// Whatever comes of the group that changes the configuration, the next one finds it as it was.
func TestFacultyPutsTheConfigurationBack(t *testing.T) {
	h := newHost(t, "STUB_FACULTY=not ok 1 - faculty: x | expected: 1 | seen: 2")
	out, code := h.run("--only", "faculty")
	h.wantTAP(out)
	h.nothingLeft(out)
	if text := h.read("stub/config-onerestart"); code != 1 || strings.Contains(text, "by the client") || !strings.Contains(text, "provider = \"scripted\"") || h.summary().Failed != 1 {
		t.Errorf("exit %d, configuration\n%s\n%s", code, text, out)
	}
	log := h.read("stub/log")
	if back, client := strings.LastIndex(log, "service playground onerestart"), strings.Index(log, " faculty\n"); client < 0 || back < client {
		t.Errorf("the suite was not restarted after the client:\n%s", log)
	}
}

// A process whose number stands in a stale file is nobody's to stop.
func TestStaleFilesEndNobody(t *testing.T) {
	h := newHost(t, "STUB_STOPS_STALE=1")
	out, code := h.run("--only", "rc")
	h.wantTAP(out)
	h.nothingLeft(out)
	if code != 1 || !strings.Contains(out, "rc: a stop with stale pid files ends nobody else's process | expected: process ") || !strings.Contains(out, "seen: is gone") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// What others have must not be touched, however it is called.
func TestExistingInstallation(t *testing.T) {
	h := newHost(t)
	h.must(os.MkdirAll(filepath.Join(h.root, "var/db/playground/piles"), 0o755))
	h.write("stub/jails", "pg-alice\npgkitchen\n", 0o644)
	out, code := h.run()
	if _, err := os.Stat(filepath.Join(h.root, "var/db/playground/piles")); err != nil || code != 1 || !strings.Contains(out, "no Playground on this host") {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
	if h.read("stub/jails") != "pg-alice\npgkitchen\n" {
		t.Error("jails of others were removed")
	}
}

func TestSignalClearsUp(t *testing.T) {
	h := newHost(t, "STUB_HANG=1")
	cmd := h.command()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	h.must(cmd.Start())
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(h.read("stub/log"), "hanging"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			t.Fatalf("the client was never started:\n%s", out.String())
		}
	}
	// A leaf jail and a mount that nobody would take away any more, beside those of others.
	h.write("stub/jails", "others\npgkit-a.job1\n", 0o644)
	h.write("stub/mounts", "/dev/ada0p2 / ufs rw 1 1\ntmpfs "+h.root+"/var/db/playground/x tmpfs rw 0 0\n", 0o644)
	h.write("stub/lo0", "	inet 127.80.0.2 netmask 0xffffffff\n	inet 127.0.0.9 netmask 0xffffffff\n", 0o644)
	h.must(cmd.Process.Signal(syscall.SIGTERM))
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		t.Fatalf("it did not end:\n%s", out.String())
	}
	if got := h.read("stub/jails"); got != "others\n" {
		t.Errorf("jails afterwards: %q", got)
	}
	if got := h.read("stub/mounts"); got != "/dev/ada0p2 / ufs rw 1 1\n" {
		t.Errorf("mounts afterwards: %q", got)
	}
	if got := h.read("stub/lo0"); got != "	inet 127.0.0.9 netmask 0xffffffff\n" {
		t.Errorf("addresses afterwards: %q", got)
	}
	h.write("stub/jails", "", 0o644)
	h.write("stub/mounts", "", 0o644)
	h.nothingLeft(out.String())
	if s := h.summary(); s.End != "interrupted by SIGTERM" || !strings.Contains(out.String(), "pgkit-a.job1") {
		t.Errorf("summary %+v\n%s", s, out.String())
	}
}

func TestKeepAndClean(t *testing.T) {
	h := newHost(t)
	out, code := h.run("--only", "acceptance", "--keep")
	if code != 0 || h.read("stub/up") == "" || !strings.Contains(out, "--clean") {
		t.Errorf("exit %d\n%s", code, out)
	}
	// A second run must leave the first one alone.
	if out, code := h.run(); code != 1 || h.read("stub/up") == "" || !strings.Contains(out, "no earlier run") || !strings.Contains(out, "--clean removes what it left") {
		t.Errorf("a second run: exit %d\n%s", code, out)
	}
	h.env = append(h.env, "STUB_RUNNING=/bin/sh ./accept.sh")
	if out, code := h.run(); code != 1 || !strings.Contains(out, "is that run: wait for its end") {
		t.Errorf("a run beside a run: exit %d\n%s", code, out)
	}
	if out, code := h.run("--clean"); code != 1 || h.read("stub/up") == "" || !strings.Contains(out, "no run goes on") {
		t.Errorf("--clean beside a run: exit %d\n%s", code, out)
	}
	h.env = append(h.env, "STUB_RUNNING=")
	out, code = h.run("--clean")
	if code != 0 {
		t.Errorf("--clean: exit %d\n%s", code, out)
	}
	h.nothingLeft(out)
	if out, code := h.run("--clean"); code != 0 || !strings.Contains(out, "no run of this script") {
		t.Errorf("--clean twice: exit %d\n%s", code, out)
	}
}

func TestZFS(t *testing.T) {
	h := newHost(t)
	h.write("stub/tenant", "x", 0o644)
	out, code := h.run("--only", "zfs", "--zfs", "tank")
	h.wantTAP(out)
	h.nothingLeft(out)
	log := h.read("stub/log")
	if code != 0 || !strings.Contains(log, "zfs create -o mountpoint=none tank/pgkit\n") || !strings.Contains(log, "zfs destroy -r tank/pgkit\n") || strings.Count(log, "zfs destroy") != 1 {
		t.Errorf("exit %d\n%s", code, out)
	}
	for _, bad := range []string{"", "tank/", "-r", "a b", "a;b"} {
		if _, code := h.run("--zfs", bad); code != 2 {
			t.Errorf("--zfs %q: exit %d", bad, code)
		}
	}
}

func TestSecurelevelIsOnlyRaisedWhenTold(t *testing.T) {
	h := newHost(t)
	out, _ := h.run("--only", "acceptance", "--securelevel", "2")
	if log := h.read("stub/log"); !strings.Contains(log, "sysctl kern.securelevel=2") || !strings.Contains(out, "only a reboot") {
		t.Errorf("%s", out)
	}
	for _, bad := range []string{"0", "4", "-1", "x"} {
		if _, code := h.run("--securelevel", bad); code != 2 {
			t.Errorf("--securelevel %s: exit %d", bad, code)
		}
	}
}

// At a securelevel only files with system flags may stay; any other that stays is a failure.
func TestUninstallAtSecurelevel(t *testing.T) {
	const name = "uninstall: uninstall.sh --purge at securelevel 1"
	for loose, verdict := range map[string]string{"": "\nok ", "/var/db/playground/accounts.db\n": "\nnot ok "} {
		h := newHost(t, "STUB_LEVEL=1")
		h.write("stub/mounts", "/dev/x on "+h.root+"/var/db/playground/stays (ufs)\n", 0o644) // what keeps the folder there
		h.write("stub/loose", loose, 0o644)
		out, _ := h.run("--only", "install")
		if _, rest, ok := strings.Cut(out, name); !ok || !regexp.MustCompile(verdict+`[0-9]+ - `+regexp.QuoteMeta(name)).MatchString(out) {
			t.Errorf("loose %q: %v %.200s", loose, ok, rest)
		}
	}
}
