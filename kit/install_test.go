package kit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script runs an installer's script on the stand-in of a host.
func (h host) script(name string, args ...string) (string, error) {
	h.Helper()
	cmd := exec.Command(shell(), append([]string{filepath.Join(h.kit, name), "--root", h.root}, args...)...)
	cmd.Env = append(h.env, "PATH="+filepath.Join(h.dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const (
	installedConfig = "root/usr/local/etc/playground/playground.toml"
	installedSample = installedConfig + ".sample"
)

func TestInstallAndUninstall(t *testing.T) {
	h := newHost(t)
	if out, err := h.script("install.sh"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if h.read(installedConfig) != "# sample\n" || h.read(installedSample) != "# sample\n" || h.read("root/usr/local/sbin/playground") == "" {
		t.Error("files are missing")
	}
	info, err := os.Stat(filepath.Join(h.root, "var/db/playground"))
	if err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("data folder: %v, %v", info, err)
	}
	if out, err := h.script("uninstall.sh", "--purge"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.nothingLeft("")
}

func TestInstallRefusesOthersFiles(t *testing.T) {
	h := newHost(t)
	h.must(os.MkdirAll(filepath.Join(h.root, "usr/local/sbin"), 0o755))
	h.write("root/usr/local/sbin/playgroundd", "mine", 0o755)
	out, err := h.script("install.sh")
	if err == nil || !strings.Contains(out, "was not laid out by this script") || h.read("root/usr/local/sbin/playgroundd") != "mine" || h.read("root/usr/local/sbin/playground") != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUpgradeKeepsConfiguration(t *testing.T) {
	h := newHost(t)
	if out, err := h.script("install.sh"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.write("stub/stage/usr/local/etc/playground/playground.toml.sample", "# second sample\n", 0o644)
	if out, err := h.script("install.sh"); err != nil || h.read(installedConfig) != "# second sample\n" {
		t.Errorf("an untouched configuration does not follow its sample: %q %v\n%s", h.read(installedConfig), err, out)
	}
	h.write(installedConfig, "mine\n", 0o640)
	h.write("stub/stage/usr/local/etc/playground/playground.toml.sample", "# third sample\n", 0o644)
	if out, err := h.script("install.sh"); err != nil || h.read(installedConfig) != "mine\n" || h.read(installedSample) != "# third sample\n" {
		t.Errorf("configuration %q %v\n%s", h.read(installedConfig), err, out)
	}
	h.write("root/var/db/playground/accounts.db", "data", 0o600)
	// Without --purge, what is the administrator's stays, and a later --purge still finds it.
	if out, err := h.script("uninstall.sh"); err != nil || h.read(installedConfig) != "mine\n" || h.read("root/var/db/playground/accounts.db") != "data" ||
		h.read("root/usr/local/sbin/playground") != "" || !strings.Contains(out, "was changed and stays") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := h.script("uninstall.sh", "--purge"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	h.nothingLeft("")
}

// Below a mount are others' files.
func TestUninstallStopsAtMounts(t *testing.T) {
	h := newHost(t)
	if out, err := h.script("install.sh"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.write("root/var/db/playground/others", "data", 0o600)
	h.write("stub/mounts", "/x on "+h.root+"/var/db/playground/root (nullfs, local)\n", 0o644)
	out, err := h.script("uninstall.sh", "--purge")
	if err == nil || !strings.Contains(out, "mounted below") || h.read("root/var/db/playground/others") != "data" {
		t.Errorf("%v\n%s", err, out)
	}
	if h.read("root/var/db/playground-kit/installed") == "" {
		t.Error("the list was removed, so that a second try could not end the work")
	}
	h.write("stub/mounts", "", 0o644)
	if out, err := h.script("uninstall.sh", "--purge"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	h.nothingLeft("")
}

func TestInstallAndUninstallWantTheirList(t *testing.T) {
	h := newHost(t)
	if out, err := h.script("uninstall.sh", "--purge"); err == nil || !strings.Contains(out, "installed nothing here") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := h.script("install.sh", "--prefix"); err == nil || !strings.Contains(out, "unknown argument") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every script is read by shellcheck where there is one, and by the shell itself.
func TestShell(t *testing.T) {
	files := []string{"accept.sh", "lib.sh", "checks.sh", "rc.sh", "teardown.sh", "install.sh", "uninstall.sh", "kit"}
	for _, name := range files {
		if out, err := exec.Command("/bin/sh", "-n", name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("shellcheck is not installed")
	}
	if out, err := exec.Command("shellcheck", files...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
