package rctest

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// enabled is all that a host with faculty workers needs in rc.conf.
const enabled = "playground_enable=YES\nplayground_facultyd_enable=YES\n"

func TestVariables(t *testing.T) {
	// Service jails for everybody, as an administrator may have set them.
	h := newHost(t, enabled+"playground_svcj=YES\nplayground_jaild_svcj=YES\nplayground_reaperd_svcj=YES\nplayground_facultyd_svcj=YES\n")
	programs := map[string]string{
		"playground": "/usr/local/libexec/playground/launch", "playground_jaild": "/usr/bin/protect /usr/local/sbin/playground-jaild",
		"playground_reaperd":  "/usr/bin/protect /usr/local/sbin/playground-reaperd",
		"playground_facultyd": "/usr/bin/protect /usr/local/sbin/playground-facultyd",
	}
	for _, script := range scripts(t) {
		t.Run(script, func(t *testing.T) {
			v := h.variables(script)
			want := map[string]string{
				"name": script, "rcvar": script + "_enable", "pidfile": "/var/run/" + script + ".pid",
				"childfile": "/var/run/" + script + "_child.pid", "command": "/usr/sbin/daemon", "procname": "/usr/sbin/daemon",
				"command_args": "-f -t " + script + " -P /var/run/" + script + ".pid -p /var/run/" + script + "_child.pid -R 5 -H -o " + v["logfile"] + " " +
					programs[script] + " -c /usr/local/etc/playground/playground.toml",
				"required_files":   "/usr/local/etc/playground/playground.toml",
				script + "_svcj":   "NO", // pinned
				"extra_commands":   "preflight ready",
				script + "_enable": "YES",
			}
			for _, name := range names(want) {
				if v[name] != want[name] {
					t.Errorf("%s is %q, want %q", name, v[name], want[name])
				}
			}
		})
	}
	if v := h.variables("playground_jaild"); v["required_modules"] != "nullfs fdescfs tmpfs" {
		t.Errorf("modules: %q", v["required_modules"])
	}
}

// A slow host's administrator gives "status" more time.
func TestStatusTimeout(t *testing.T) {
	for _, script := range scripts(t) {
		for conf, want := range map[string]string{"": " 2s\n", script + "_status_timeout=40\n": " 40s\n"} {
			h := newHost(t, enabled+conf)
			asked := "#!/bin/sh\necho \"$@\" >>\"$RCTEST_ROOT/asked\"\n"
			for _, program := range []string{"playground", "playground-jaild", "playground-reaperd", "playground-facultyd"} {
				h.write("usr/local/sbin/"+program, asked, 0o755)
			}
			sleeper := exec.Command("sleep", "60")
			if err := sleeper.Start(); err != nil {
				t.Fatal(err)
			}
			h.write("var/run/"+script+".pid", strconv.Itoa(sleeper.Process.Pid), 0o644)
			status, out := h.service(script, "status")
			_, _ = sleeper.Process.Kill(), sleeper.Wait() // it only had to be there
			text, _ := os.ReadFile(h.path("asked"))
			if status != 0 || !strings.HasSuffix(string(text), want) {
				t.Errorf("%s with %q: %d %s asked %q", script, conf, status, out, text)
			}
		}
	}
}

func TestKnobs(t *testing.T) {
	h := newHost(t, enabled+"playground_jaild_enable=NO\nplayground_jaild_oomprotect=NO\nplayground_jaild_config=/x.toml\n")
	v := h.variables("playground_jaild")
	if v["playground_jaild_enable"] != "NO" || strings.Contains(v["command_args"], "protect") || v["required_files"] != "/x.toml" ||
		!strings.HasSuffix(v["command_args"], " -c /x.toml") {
		t.Errorf("what rc.conf sets does not hold: %v", v)
	}
	if v := newHost(t, "").variables("playground_jaild"); v["playground_jaild_enable"] != "NO" {
		t.Errorf("enabled by default: %v", v)
	}
}

func TestStartBringsUpTheSuite(t *testing.T) {
	h := newHost(t, enabled)
	h.want("playground", "status", 1, "playground is not running.")
	h.want("playground", "ready", 1, "not running")
	h.want("playground", "start", 0, "Starting playground_jaild.", "Starting playground_reaperd.", "Starting playground.")
	want := []string{
		"kldload nullfs", "kldload fdescfs", "kldload tmpfs", "playground-jaild started", "playground-reaperd started", "launch started",
	}
	if diff := cmp.Diff(want, h.events("kldload", "playground", "launch")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// Who keeps faculty workers is nobody's need, and finds what it needs running.
	h.want("playground_facultyd", "status", 1, "not running")
	h.want("playground_facultyd", "start", 0, "Starting playground_facultyd.")
	for _, script := range scripts(t) {
		h.want(script, "status", 0, script+" is running as pid ")
		h.want(script, "ready", 0)
		h.want(script, "start", 1, "already running")
	}
	// Stopping what faces the network leaves the jobs.
	h.want("playground", "stop", 0)
	h.want("playground", "status", 1, "not running")
	h.want("playground_facultyd", "stop", 0)
	h.want("playground_reaperd", "status", 0)
	h.want("playground_reaperd", "stop", 0)
	h.want("playground_jaild", "stop", 0)
	h.want("playground_jaild", "stop", 1, "not running")
}

func TestRestartKeepsJobs(t *testing.T) {
	h := newHost(t, enabled)
	h.want("playground", "start", 0)
	before, reaperd, jaild := h.pid("playground_child.pid"), h.pid("playground_reaperd_child.pid"), h.pid("playground_jaild_child.pid")
	h.want("playground", "restart", 0)
	if h.pid("playground_child.pid") == before {
		t.Error("the daemon was not restarted")
	}
	if h.pid("playground_reaperd_child.pid") != reaperd || h.pid("playground_jaild_child.pid") != jaild {
		t.Error("a daemon that holds jobs was restarted")
	}
	stopAll(h)
}

// daemon(8) of FreeBSD 13 does not wait for its child.
func TestRestartWaitsForTheOldOne(t *testing.T) {
	for _, version := range []string{"13", "14"} {
		t.Run("FreeBSD "+version, func(t *testing.T) {
			h := newHost(t, enabled)
			h.env = append(h.env, "RCTEST_DAEMON="+version)
			h.write("playground-reaperd.drain", "0.5", 0o644)
			h.want("playground_reaperd", "start", 0)
			h.want("playground_reaperd", "restart", 0)
			want := []string{"playground-reaperd started", "playground-reaperd ended", "playground-reaperd started"}
			if diff := cmp.Diff(want, h.events("playground-reaperd")); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			stopAll(h)
		})
	}
}

func TestStopSaysWhatStillRuns(t *testing.T) {
	h := newHost(t, enabled+"playground_jaild_stop_timeout=2\n")
	h.env = append(h.env, "RCTEST_DAEMON=13")
	h.write("playground-jaild.drain", "1.5", 0o644)
	h.want("playground_jaild", "start", 0)
	pid := h.pid("playground_jaild_child.pid")
	h.want("playground_jaild", "stop", 1, "did not end within 2 seconds: pid ")
	for deadline := time.Now().Add(10 * time.Second); !slices.Contains(h.events("playground-jaild ended"), "playground-jaild ended"); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d did not end", pid)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name, conf string
		files      []string
		parts      []string
		started    []string // what may run afterwards
	}{
		{"not enabled", "", nil, []string{"Cannot 'start' playground. Set playground_enable to YES"}, nil},
		{"host is unfit", enabled, []string{"launch.unfit"}, []string{"racct: off", "-> reboot", "failed precmd routine for playground"}, nil},
		{"jaild's configuration", enabled, []string{"playground-jaild.unfit"}, []string{"failed precmd routine for playground_jaild"}, nil},
		{"jaild dies", enabled, []string{"playground-jaild.crash"}, []string{"playground_jaild did not become ready", "jaild.log"}, nil},
		{"reaperd's configuration", enabled, []string{"playground-reaperd.unfit"}, []string{"failed precmd routine for playground_reaperd"},
			[]string{"playground-jaild"}},
		{"no configuration", enabled + "playground_config=/nowhere\n", nil, []string{"/nowhere is not readable"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t, tt.conf)
			for _, name := range tt.files {
				h.write(name, "", 0o644)
			}
			status := 1
			if tt.conf == "" {
				status = 0 // rc(8) runs every script at boot
			}
			h.want("playground", "start", status, tt.parts...)
			var started []string
			for _, event := range h.events("playground", "launch") {
				started = append(started, strings.TrimSuffix(event, " started"))
			}
			if diff := cmp.Diff(tt.started, started); diff != "" {
				t.Errorf("started (-want +got):\n%s", diff)
			}
			h.want("playground", "status", 1)
			stopAll(h)
		})
	}
}

func TestStatusTellsTheTruth(t *testing.T) {
	for _, script := range scripts(t) {
		t.Run(script, func(t *testing.T) {
			program := map[string]string{"playground": "launch", "playground_jaild": "playground-jaild", "playground_reaperd": "playground-reaperd",
				"playground_facultyd": "playground-facultyd"}[script]
			h := newHost(t, enabled)
			h.want("playground", "start", 0)
			h.want("playground_facultyd", "start", 0)
			// It runs, but deaf.
			if err := os.Remove(h.path(program + ".answers")); err != nil {
				t.Fatal(err)
			}
			h.want(script, "status", 1, script+" is running as pid ", "does not answer", "/var/log/playground/")
			h.want(script, "ready", 1, "did not become ready")
			stopAll(h)
		})
	}
}

// The daemon for faculty workers is started by its own word only, and brings up what it asks.
func TestFacultydAlone(t *testing.T) {
	if v := newHost(t, "playground_enable=YES\n").variables("playground_facultyd"); v["playground_facultyd_enable"] != "NO" {
		t.Error("the suite's word enables it, though there may be no workers")
	}
	h := newHost(t, enabled)
	h.write("check", "1", 0o644)
	h.want("playground_facultyd", "preflight", 1, "faculty check for ")
	h.write("check", "0", 0o644)
	h.write("playground-facultyd.unfit", "", 0o644)
	h.want("playground_facultyd", "start", 1, "failed precmd routine for playground_facultyd")
	if got := h.events("playground"); len(got) != 0 {
		t.Errorf("a refused start has begun %v", got)
	}
	if err := os.Remove(h.path("playground-facultyd.unfit")); err != nil {
		t.Fatal(err)
	}
	h.want("playground_facultyd", "start", 0, "Starting playground_jaild.", "Starting playground_reaperd.")
	want := []string{"playground-jaild started", "playground-reaperd started", "playground-facultyd started"}
	if diff := cmp.Diff(want, h.events("playground")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// Neither the configuration nor the definitions are asked for a stop.
	h.write("playground-facultyd.unfit", "", 0o644)
	if err := os.Remove(h.path("usr/local/etc/playground/playground.toml")); err != nil {
		t.Fatal(err)
	}
	h.want("playground_facultyd", "stop", 0)
	h.want("playground_reaperd", "status", 0)
	stopAll(h)
}

// daemon(8) runs while what it keeps dies again and again.
func TestStatusOfACrashLoop(t *testing.T) {
	h := newHost(t, enabled)
	h.write("playground-jaild.crash", "", 0o644)
	h.want("playground_jaild", "start", 1, "did not become ready")
	h.want("playground_jaild", "status", 1, "does not answer")
	h.want("playground_jaild", "stop", 0)
}

// A daemon that is busy with its own start, as after a boot with many jails, is waited for.
func TestStartWaitsForADependency(t *testing.T) {
	h := newHost(t, enabled)
	h.write("playground-jaild.silent", "", 0o644)
	h.want("playground_jaild", "start", 1)
	late := time.AfterFunc(1500*time.Millisecond, func() { _ = os.WriteFile(h.path("playground-jaild.answers"), nil, 0o644) })
	defer late.Stop()
	h.want("playground", "start", 0, "Starting playground.")
	stopAll(h)
}

func TestPreflight(t *testing.T) {
	for _, script := range scripts(t) {
		h := newHost(t, enabled)
		for doctor, status := range map[string]int{"0": 0, "1": 0, "2": 1} {
			h.write("doctor", doctor, 0o644)
			h.want(script, "preflight", status, "doctor for "+h.root+"/usr/local/etc/playground/playground.toml")
		}
		h.want(script, "reload", 1, "unknown directive")
	}
}

// stopAll stops what runs, in the order of a shutdown.
func stopAll(h *host) {
	for _, script := range []string{"playground", "playground_facultyd", "playground_reaperd", "playground_jaild"} {
		h.service(script, "onestop")
	}
}
