package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A host is a folder that stands for a host's root, as with pkg -r.
type host struct {
	*testing.T
	root    string
	scripts map[string]string
}

func newHost(t *testing.T) host {
	t.Helper()
	entries, err := parsePlist([]byte("@sample(root,playground,0640) etc/playground/playground.toml.sample\n@sample etc/b.conf.sample\n"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := scripts(entries)
	if err != nil {
		t.Fatal(err)
	}
	h := host{t, filepath.Join(t.TempDir(), "a root"), all}
	h.write("/usr/local/etc/playground/playground.toml.sample", "first sample\n")
	h.write("/usr/local/etc/b.conf.sample", "b\n")
	return h
}

func (h host) write(path, text string) {
	h.Helper()
	path = filepath.Join(h.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		h.Fatal(err)
	}
}

// text returns a file, or "" where there is none.
func (h host) text(path string) string {
	h.Helper()
	data, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	return string(data)
}

// run executes a script as pkg does after decoding it, and returns what it printed.
func (h host) run(name string, env ...string) string {
	h.Helper()
	script, err := url.PathUnescape(h.scripts[name])
	if err != nil || script == "" {
		h.Fatalf("script %s: %v", name, err)
	}
	// Only pw(8) is not here; the tests bring one.
	script = strings.ReplaceAll(script, "/usr/sbin/pw", "pw")
	cmd := exec.Command("/bin/sh", "-eu", "-c", script)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "PKG_ROOTDIR=" + h.root, "PKG_UPGRADE="}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

const (
	config = "/usr/local/etc/playground/playground.toml"
	sample = config + ".sample"
)

func TestInstallMakesConfiguration(t *testing.T) {
	h := newHost(t)
	h.run("post-install")
	if got := h.text(config); got != "first sample\n" {
		t.Errorf("the configuration is %q", got)
	}
	info, err := os.Stat(filepath.Join(h.root, config))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the configuration has mode %v (%v), want the sample's", info.Mode(), err)
	}
	if h.text("/usr/local/etc/b.conf") != "b\n" {
		t.Error("the second sample was not copied")
	}
}

func TestUpgradeKeepsConfiguration(t *testing.T) {
	h := newHost(t)
	h.run("post-install")
	h.write(config, "mine\n")
	if out := h.run("pre-deinstall", "PKG_UPGRADE=true"); out != "" {
		t.Errorf("an upgrade said %q", out)
	}
	h.write(sample, "second sample\n")
	h.run("post-install")
	if got := h.text(config); got != "mine\n" {
		t.Errorf("an upgrade changed the configuration to %q", got)
	}
}

func TestUpgradeRenewsUnchangedConfiguration(t *testing.T) {
	h := newHost(t)
	h.run("post-install")
	h.run("pre-deinstall", "PKG_UPGRADE=true")
	h.write(sample, "second sample\n")
	h.run("post-install")
	if got := h.text(config); got != "second sample\n" {
		t.Errorf("the configuration is %q", got)
	}
}

func TestDeinstallLeavesWhatIsNotOurs(t *testing.T) {
	h := newHost(t)
	h.run("post-install")
	h.write(config, "mine\n")
	h.write("/var/db/playground/accounts.db", "data\n")
	out := h.run("pre-deinstall")
	if h.text(config) != "mine\n" || h.text("/var/db/playground/accounts.db") != "data\n" {
		t.Error("a deinstall took the administrator's files")
	}
	if h.text("/usr/local/etc/b.conf") != "" {
		t.Error("an unchanged configuration stayed")
	}
	if !strings.Contains(out, config) {
		t.Errorf("nobody was told of %s: %q", config, out)
	}
}

// A link is the administrator's doing, even if what it points to is not there yet.
func TestInstallLeavesLinks(t *testing.T) {
	h := newHost(t)
	if err := os.Symlink("/nowhere/else", filepath.Join(h.root, config)); err != nil {
		t.Fatal(err)
	}
	h.run("post-install")
	if to, err := os.Readlink(filepath.Join(h.root, config)); err != nil || to != "/nowhere/else" {
		t.Errorf("the link is %q (%v)", to, err)
	}
}

// fakePW keeps users and groups as files of "u-" and "g-" names and ids, and logs what changes something.
const fakePW = `#!/bin/sh
dir=$(dirname "$0")
if [ "$1" = "-R" ]; then echo "root $2" >>"$dir/log"; shift 2; fi
command="$1"; shift
while [ $# -gt 0 ]; do case "$1" in -n) name="$2";; -u|-g) [ "$command $1" = "useradd -g" ] || id="$2";; esac; shift 2; done
case "$command" in
usershow) [ -e "$dir/u-${name:-$id}" ];;
groupshow) [ -e "$dir/g-${name:-$id}" ];;
groupadd) echo "group $name $id" >>"$dir/log"; touch "$dir/g-$name" "$dir/g-$id";;
useradd) echo "user $name $id" >>"$dir/log"; touch "$dir/u-$name" "$dir/u-$id";;
esac
`

func TestInstallMakesUser(t *testing.T) {
	tests := map[string]struct {
		there []string
		want  string
	}{
		"fresh":              {nil, "group playground 856\nuser playground 856\n"},
		"ids taken":          {[]string{"u-856", "g-857"}, "group playground 858\nuser playground 858\n"},
		"all there":          {[]string{"u-playground", "g-playground"}, ""},
		"only the group":     {[]string{"g-playground"}, "user playground 856\n"},
		"another's all over": {[]string{"u-playground", "g-playground", "u-856"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, bin := newHost(t), t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "pw"), []byte(fakePW), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, file := range test.there {
				if err := os.WriteFile(filepath.Join(bin, file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			// The function called pw hides the program, so the tests' one has another name.
			h.scripts["pre-install"] = strings.ReplaceAll(h.scripts["pre-install"], "/usr/sbin/pw", filepath.Join(bin, "pw"))
			for range 2 { // an upgrade runs it again
				h.run("pre-install", "PATH="+bin+":"+os.Getenv("PATH"))
			}
			log, _ := os.ReadFile(filepath.Join(bin, "log"))
			got := strings.ReplaceAll(string(log), "root "+h.root+"\n", "")
			if got != test.want {
				t.Errorf("pw was told:\n%swant:\n%s", got, test.want)
			}
			if !strings.Contains(string(log), "root "+h.root+"\n") {
				t.Error("PKG_ROOTDIR was not honoured")
			}
		})
	}
}

// A package must not do what is the administrator's to decide.
func TestScriptsOnlyPrepare(t *testing.T) {
	for name, script := range newHost(t).scripts {
		for _, bad := range []string{"service ", "sysrc", "rc.conf", "kldload", "onestart", "sysctl", "/boot"} {
			if strings.Contains(script, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
	}
}
