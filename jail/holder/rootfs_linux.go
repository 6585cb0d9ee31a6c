package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"playground/racct"
)

// SystemFolders are the host's folders that every sandbox sees, read-only. A state folder below one of them would be seen
// by every tenant; preflight refuses that.
var SystemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// What a sandbox's own /etc takes from the host: name look-up is written anew, secrets and host names stay out.
var (
	etcFolders = []string{"alternatives", "ca-certificates", "fonts", "ld.so.conf.d", "pki", "ssl", "terminfo"}
	etcFiles   = []string{"ca-certificates.conf", "debian_version", "gai.conf", "ld.so.cache", "ld.so.conf", "localtime",
		"mime.types", "protocols", "services", "timezone"}
)

// builder makes the private root; the first error stops it.
type builder struct {
	root string
	err  error
}

// buildRoot gives the calling process, which is alone in new namespaces, a root of its own: system folders read-only, the
// tenant's folders writable, a minimal /dev, and nothing else of the host. The former root is gone afterwards.
func buildRoot(cfg Config) error {
	b := &builder{root: cfg.Root}
	b.do("make mounts private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	b.do("mount the private root", unix.Mount("playground", b.root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=4m"))
	for _, dir := range SystemFolders {
		b.system(dir)
	}
	b.etc(cfg)
	b.dev(cfg.Limits)
	b.bind(cfg.Home, "/home/"+cfg.Tenant, 0)
	b.bind(cfg.Workspace, "/workspace", 0)
	shared := uint64(unix.MOUNT_ATTR_NOEXEC)
	if cfg.Source != "" { // a build writes to scratch space only
		b.bind(cfg.Source, "/workspace/src", unix.MOUNT_ATTR_RDONLY)
		shared |= unix.MOUNT_ATTR_RDONLY
	}
	b.bind(cfg.Tmp, "/tmp", 0)
	b.file("/pile/self.pile", "")
	b.bind(cfg.Pile+"/self.pile", "/pile/self.pile", unix.MOUNT_ATTR_NOEXEC)
	b.file("/pile/self.key", "")
	b.bind(cfg.Pile+"/self.key", "/pile/self.key", unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY)
	b.file("/shared/shared.pile", "")
	b.bind(cfg.Shared+"/shared.pile", "/shared/shared.pile", shared)
	b.mkdir("/var")
	b.symlink("/tmp", "/var/tmp")
	// For what must not outlive the sandbox, such as a faculty worker's token.
	b.mkdir("/run")
	b.do("mount /run", unix.Mount("run", b.root+"/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=1m"))
	b.mkdir("/proc")
	if b.err != nil {
		return b.err
	}
	if err := enterRoot(b.root); err != nil {
		return err
	}
	if cfg.Loopback {
		if err := loopbackUp(); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(cfg.Hostname)); err != nil {
		return fmt.Errorf("cannot set host name: %w", err)
	}
	return nil
}

// enterRoot makes root the root and drops the host's. /proc is mounted while the host's is still visible: the kernel lets a
// user namespace mount one only beside another that hides nothing (fs/namespace.c mount_too_revealing).
func enterRoot(root string) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("proc", root+"/proc", "proc", flags, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	boundIPC(root + "/proc/sys/kernel/")
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The documented trick without a folder for the old root: it ends up on top of the new one (pivot_root(2)).
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot drop the host's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr); err != nil {
		return fmt.Errorf("cannot make the root read-only: %w", err)
	}
	return nil
}

// boundIPC bounds what System V IPC may keep: its segments and queues outlive every process of the tenant, so that no end of a
// job gives their memory back and no kill frees it. Their settings are the namespace's own since Linux 5.19; an older kernel
// refuses, and has no such bound.
func boundIPC(dir string) {
	for file, text := range map[string]string{
		"shmall": "16384", // pages: as much as /dev/shm
		"msgmni": "256",   // queues, of 16 KiB each
		"sem":    "250 32000 100 256",
	} {
		os.WriteFile(dir+file, []byte(text), 0)
	}
}

func (b *builder) do(what string, err error) {
	if b.err == nil && err != nil {
		b.err = fmt.Errorf("cannot %s: %w", what, err)
	}
}

func (b *builder) mkdir(path string) {
	if b.err == nil {
		b.err = os.MkdirAll(b.root+path, 0o755)
	}
}

func (b *builder) file(path, text string) {
	b.mkdir(filepath.Dir(path))
	if b.err == nil {
		b.err = os.WriteFile(b.root+path, []byte(text), 0o644)
	}
}

func (b *builder) symlink(target, path string) {
	if b.err == nil {
		b.err = os.Symlink(target, b.root+path)
	}
}

// bind shows the host's source, with all that is mounted below it, at path with at least nosuid and nodev. A folder is made
// for it; for a file, one must exist.
func (b *builder) bind(source, path string, attrs uint64) {
	if b.err != nil {
		return
	}
	if st, err := os.Stat(source); err == nil && st.IsDir() {
		b.mkdir(path)
	}
	target := b.root + path
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		b.err = fmt.Errorf("cannot show %s in the sandbox: %w", path, err)
		if errors.Is(err, unix.EACCES) {
			b.err = fmt.Errorf("%w (every folder above the state folder needs the search permission for others: chmod o+x)", b.err)
		}
		return
	}
	attr := unix.MountAttr{Attr_set: attrs | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	b.do("protect "+path, unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &attr))
}

// system shows a system folder read-only, or copies the link of a merged /usr.
func (b *builder) system(path string) {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if b.do("look at "+path, err); b.err != nil {
		return
	}
	if st.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		b.do("read link "+path, err)
		b.symlink(target, path)
		return
	}
	b.bind(path, path, unix.MOUNT_ATTR_RDONLY)
}

func (b *builder) etc(cfg Config) {
	b.file("/etc/passwd", cfg.Tenant+":x:0:0:"+cfg.Tenant+":/home/"+cfg.Tenant+":/bin/sh\n"+
		"root:x:0:0:root:/home/"+cfg.Tenant+":/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")
	b.file("/etc/group", cfg.Tenant+":x:0:\nroot:x:0:\nnogroup:x:65534:\n"+fmt.Sprintf("shared:x:%d:%s\n", SharedGID, cfg.Tenant))
	b.file("/etc/hostname", cfg.Hostname+"\n")
	b.file("/etc/hosts", "127.0.0.1\tlocalhost "+cfg.Hostname+"\n::1\tlocalhost\n")
	b.file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n")
	// Without a fork, unlike the distribution's, which doubles the cost of a login shell.
	b.file("/etc/profile", "umask 022\n")
	b.file("/etc/shells", "/bin/sh\n")
	if cfg.Resolver {
		b.copy("/etc/resolv.conf")
	}
	for _, name := range etcFiles {
		b.copy("/etc/" + name)
	}
	for _, name := range etcFolders {
		if st, err := os.Stat("/etc/" + name); err == nil && st.IsDir() {
			b.bind("/etc/"+name, "/etc/"+name, unix.MOUNT_ATTR_RDONLY)
		}
	}
}

// copy takes a small file of the host's if it is there and readable.
func (b *builder) copy(path string) {
	data, err := os.ReadFile(path)
	if err == nil && len(data) < 1<<20 {
		b.file(path, string(data))
	}
}

// jobsPerTenant is how many jobs the bound on a tenant's terminals reckons with.
const jobsPerTenant = 8

// terminals are the options of a tenant's /dev/pts. All instances draw on one stock of the host (kernel.pty.max), so that a
// tenant without a bound would leave none to the others.
func terminals(perJob int64) string {
	options := "newinstance,ptmxmode=0666,mode=0620"
	if perJob > 0 {
		options += fmt.Sprintf(",max=%d", perJob*jobsPerTenant)
	}
	return options
}

func (b *builder) dev(limits racct.Limits) {
	b.mkdir("/dev/pts")
	b.mkdir("/dev/shm")
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		path := "/dev/" + name
		b.file(path, "")
		if b.err == nil {
			b.do("show "+path, unix.Mount(path, b.root+path, "", unix.MS_BIND, ""))
		}
	}
	if b.err != nil {
		return
	}
	b.do("mount /dev/pts", unix.Mount("devpts", b.root+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, terminals(limits.Pseudoterminals)))
	b.do("mount /dev/shm", unix.Mount("shm", b.root+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m"))
	b.symlink("pts/ptmx", "/dev/ptmx")
	b.symlink("/proc/self/fd", "/dev/fd")
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		b.symlink(fmt.Sprintf("/proc/self/fd/%d", i), "/dev/"+name)
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot bring up loopback: %w", err)
	}
	defer unix.Close(fd)
	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifreq.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifreq); err != nil {
		return fmt.Errorf("cannot bring up loopback: %w", err)
	}
	return nil
}
