package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// The test binary plays more parts: the launcher, and the program that it becomes.
const (
	partNonblocking = "nonblocking"
	partLauncher    = "launcher"
	partProgram     = "program"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case partNonblocking:
			// As a terminal that another program left so.
			fmt.Println(unix.SetNonblock(0, true), unix.Exec(os.Args[0], append([]string{os.Args[0], partLauncher}, os.Args[2:]...), os.Environ()))
			os.Exit(1)
		case partLauncher:
			slots, err := Reserve(3)
			if err == nil {
				err = launcher(slots, os.Args[2:])
			}
			fmt.Println(err)
			os.Exit(1)
		case partProgram:
			if err := json.NewEncoder(os.Stdout).Encode(look(os.Args[2:])); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// launcher does what playground-launch does, and leaves open what must not be inherited.
func launcher(slots *Slots, args []string) error {
	dir := args[0]
	who, err := Lookup("nobody")
	if err != nil {
		return err
	}
	folders := Folders{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Own: filepath.Join(dir, "state/own")}
	if err := folders.Make(who); err != nil {
		return err
	}
	leak, err := unix.Open("/etc", unix.O_RDONLY, 0) // inherited, if nobody minds
	if err == nil {
		err = unix.Dup2(leak, 77)
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"mcp", "operator"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		file, err := listener.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		if err := slots.Add(name, file); err != nil {
			return err
		}
	}
	return slots.Become(who, os.Args[0], append([]string{partProgram}, args[1:]...)...)
}

// A view is what the program sees of itself.
type view struct {
	PID     int
	UIDs    string // real, effective, saved, filesystem
	Groups  string
	Caps    string // permitted
	NoNew   string
	Dir     string
	Files   map[int]string
	Sockets []string // names of the passed listeners
	Env     []string
	Wrote   []string // which of the given paths could be written
	Root    []string // calls that led back to root
}

// look tries everything: to be root again, and to write each path.
func look(paths []string) view {
	v := view{PID: os.Getpid(), Files: map[int]string{}, Env: os.Environ()}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.Join(strings.Fields(value), " ")
		switch key {
		case "Uid":
			v.UIDs = value
		case "Groups":
			v.Groups = value
		case "CapPrm":
			v.Caps = value
		case "NoNewPrivs":
			v.NoNew = value
		}
	}
	v.Dir, _ = os.Getwd()
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		// What the runtime opened for itself is close-on-exec; what was inherited is not.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			v.Files[fd], _ = os.Readlink("/proc/self/fd/" + e.Name())
		}
	}
	listeners, _ := activation.ListenersWithNames()
	for name := range listeners {
		v.Sockets = append(v.Sockets, name)
	}
	slices.Sort(v.Sockets)
	for _, path := range paths {
		if file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
			_ = file.Close() // empty
			v.Wrote = append(v.Wrote, path)
		}
	}
	for name, call := range map[string]func(int) error{"setuid": syscall.Setuid, "seteuid": syscall.Seteuid, "setgid": syscall.Setgid} {
		if call(0) == nil {
			v.Root = append(v.Root, name)
		}
	}
	return v
}

// program copies the test binary to where an ordinary user can run it.
func program(t *testing.T) (dir, path string) {
	t.Helper()
	if os.Getenv("PLAYGROUND_ROOT_TESTS") != "1" || os.Geteuid() != 0 {
		t.Skip("needs root and PLAYGROUND_ROOT_TESTS=1")
	}
	dir, err := os.MkdirTemp("/tmp", "launch-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "launch.test")
	from, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(to.Close(), os.Chmod(path, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// What faces the network is nobody, for good, and can write nothing but its own folder.
func TestBecomeNobody(t *testing.T) {
	for _, part := range []string{partLauncher, partNonblocking} {
		t.Run(part, func(t *testing.T) { becomeNobody(t, part) })
	}
}

// home is root's home folder.
func home(t *testing.T) string {
	t.Helper()
	root, err := user.LookupId("0")
	if err != nil {
		t.Fatal(err)
	}
	return root.HomeDir
}

func becomeNobody(t *testing.T, part string) {
	dir, path := program(t)
	own := filepath.Join(dir, "state/own/file")
	// The folders of the other daemons, as they make them.
	for _, name := range []string{"state", "state/sandboxes", "state/piles", "run"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	attempts := []string{
		own, filepath.Join(dir, "file"), filepath.Join(dir, "state/file"), filepath.Join(dir, "state/sandboxes/file"), filepath.Join(dir, "state/piles/file"),
		filepath.Join(dir, "run/file"), filepath.Join(dir, "run/jaild.sock"), path, "/etc/playground-test", "/etc/passwd", "/usr/local/playground-test",
		"/var/db-playground-test", filepath.Join(home(t), "playground-test"), "/playground-test",
	}
	cmd := exec.Command(path, append([]string{part, dir}, attempts...)...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET=/n", "SECRET=x")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	var v view
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	who, err := Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := strconv.Itoa(who.UID), strconv.Itoa(who.GID)
	if v.PID != cmd.Process.Pid {
		t.Errorf("the process changed from %d to %d", cmd.Process.Pid, v.PID)
	}
	if v.UIDs != strings.Join([]string{uid, uid, uid, uid}, " ") || v.Groups != gid || strings.Trim(v.Caps, "0") != "" || v.NoNew != "1" {
		t.Errorf("uids %q, groups %q, capabilities %q, no new privileges %q", v.UIDs, v.Groups, v.Caps, v.NoNew)
	}
	if len(v.Root) > 0 {
		t.Errorf("became root again by %v", v.Root)
	}
	if !slices.Equal(v.Wrote, []string{own}) {
		t.Errorf("could write %v, want only %s", v.Wrote, own)
	}
	if !slices.Equal(v.Sockets, []string{"mcp", "operator"}) || v.Dir != "/" {
		t.Errorf("sockets %v, folder %q", v.Sockets, v.Dir)
	}
	checkInherited(t, v)
}

// checkInherited compares what came over exec with what should.
func checkInherited(t *testing.T, v view) {
	t.Helper()
	for fd, file := range v.Files {
		if fd > firstSocket+1 || fd >= firstSocket && !strings.HasPrefix(file, "socket:") {
			t.Errorf("descriptor %d, %s, was inherited", fd, file)
		}
	}
	if len(v.Files) != 5 {
		t.Errorf("inherited %v, want standard input, output, error and two sockets", v.Files)
	}
	for _, variable := range v.Env {
		if strings.HasPrefix(variable, "SECRET=") {
			t.Errorf("%s was inherited", variable)
		}
	}
	if !slices.Contains(v.Env, "NOTIFY_SOCKET=/n") {
		t.Errorf("NOTIFY_SOCKET is missing in %v", v.Env)
	}
}

func TestMakeFolders(t *testing.T) {
	dir, _ := program(t)
	who := Identity{Name: "nobody", UID: 65534, GID: 65534, Groups: []int{65534}}
	f := Folders{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Own: filepath.Join(dir, "state/own")}
	check := func(path string, mode os.FileMode, uid, gid uint32) {
		t.Helper()
		info, err := os.Lstat(path)
		if err != nil {
			t.Error(err)
			return
		}
		st := info.Sys().(*syscall.Stat_t)
		if info.Mode().Perm() != mode || st.Uid != uid || st.Gid != gid {
			t.Errorf("%s is %v of %d:%d, want %o of %d:%d", path, info.Mode(), st.Uid, st.Gid, mode, uid, gid)
		}
	}
	// A state folder that another daemon made for itself alone is opened for passing through.
	if err := os.Mkdir(f.State, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Make(who); err != nil {
			t.Fatal(err)
		}
		check(f.State, 0o711, 0, 0)
		check(f.Run, 0o750, 0, 65534)
		check(f.Own, 0o700, 65534, 65534)
	}
	if err := errors.Join(os.Remove(f.Own), os.Symlink("/etc", f.Own)); err != nil {
		t.Fatal(err)
	}
	if err := f.Make(who); err == nil {
		t.Error("took a link for the daemon's folder")
	}
	check("/etc", 0o755, 0, 0)
	// A folder for everybody's sockets stays as it is, and one that everybody may write to is no place for ours.
	if err := os.Chmod(f.Run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := RunDir(f.Run, 65534); err != nil {
		t.Error(err)
	}
	check(f.Run, 0o755, 0, 65534)
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o775} {
		if err := os.Chmod(f.Run, mode); err != nil {
			t.Fatal(err)
		}
		if err := RunDir(f.Run, 65534); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if err := errors.Join(os.Chmod(f.Run, 0o700), os.Chown(f.Run, 65534, 0)); err != nil {
		t.Fatal(err)
	}
	if err := RunDir(f.Run, 65534); err == nil || !strings.Contains(err.Error(), "not root's") {
		t.Errorf("somebody else's: %v", err)
	}
	if err := errors.Join(os.Chown(f.Run, 0, 0), os.Remove(f.Own), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := f.Make(who); err == nil || !strings.Contains(err.Error(), "chmod o+x "+dir) {
		t.Errorf("a folder above keeps the user out: %v", err)
	}
}
