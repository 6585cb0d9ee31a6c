// Command mkkit makes the kit that shows on a real FreeBSD host what the suite does there: one archive with the packages, an
// installer for hosts without pkg(8), every test program, the acceptance client, its adversary and an example of a faculty, and
// the script that runs them all.
//
//	go run ./kit/mkkit -arch amd64 -version "$(git describe)" -out dist
//
// It needs nothing but Go and make, and builds everything for FreeBSD on any host.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "mkkit:", err)
		os.Exit(1)
	}
}

// A kit is one archive in the making.
type kit struct {
	arch    string
	abi     string // major versions of FreeBSD that get a package
	version string
	out     string
	pack    string // packages of this folder are taken instead of building them
	dir     string // everything is collected here
	stderr  io.Writer
}

// versionForm is what may become part of a file's name.
var versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$`)

func parse(args []string, stderr io.Writer) (kit, error) {
	k := kit{stderr: stderr}
	set := flag.NewFlagSet("mkkit", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&k.arch, "arch", "amd64", "amd64 or arm64")
	set.StringVar(&k.abi, "abi", "13,14,15", "major versions of FreeBSD, with commas")
	set.StringVar(&k.version, "version", "devel", "what git describe says")
	set.StringVar(&k.out, "out", "dist", "`folder` for the archive")
	set.StringVar(&k.pack, "packages", "", "take the packages of this `folder` instead of building them")
	if err := set.Parse(args); err != nil {
		return k, fmt.Errorf("bad usage: %w", err)
	}
	switch {
	case set.NArg() > 0:
		return k, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case k.arch != "amd64" && k.arch != "arm64":
		return k, fmt.Errorf("cannot build for architecture %q: want amd64 or arm64", k.arch)
	case !versionForm.MatchString(k.version):
		return k, fmt.Errorf("version %q cannot be part of a file's name", k.version)
	}
	return k, nil
}

func run(args []string, stdout, stderr io.Writer) (err error) {
	k, err := parse(args, stderr)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mkkit-")
	if err != nil {
		return fmt.Errorf("cannot make a folder to build in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	name := fmt.Sprintf("playground-kit-%s-freebsd-%s", k.version, k.arch)
	k.dir = filepath.Join(work, name)
	for _, step := range []func() error{k.folders, k.scripts, k.packages, k.programs, k.faculty, k.tests} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(k.out, 0o755); err != nil {
		return fmt.Errorf("cannot make the folder for the kit: %w", err)
	}
	archive := filepath.Join(k.out, name+".tar.zst")
	if err := writeArchive(archive, work, name); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, archive)
	return err
}

func (k kit) folders() error {
	for _, dir := range []string{"bin", "faculty", "packages", "tests"} {
		if err := os.MkdirAll(filepath.Join(k.dir, dir), 0o755); err != nil {
			return fmt.Errorf("cannot make the kit's folder: %w", err)
		}
	}
	// The scripts compare these with the host.
	about := fmt.Sprintf("version=%s\narch=%s\n", k.version, k.arch)
	return os.WriteFile(filepath.Join(k.dir, "kit.conf"), []byte(about), 0o644)
}

// scripts are the kit's own files and their modes.
func (k kit) scripts() error {
	for name, mode := range map[string]os.FileMode{
		"accept.sh": 0o755, "install.sh": 0o755, "uninstall.sh": 0o755, "kit": 0o755, "lib.sh": 0o644, "checks.sh": 0o644, "rc.sh": 0o644, "teardown.sh": 0o644, "README": 0o644,
	} {
		if err := copyFile(filepath.Join("kit", name), filepath.Join(k.dir, name), mode); err != nil {
			return err
		}
	}
	return nil
}

// packages makes the packages, and the list of files that the installer lays out.
func (k kit) packages() error {
	from := k.pack
	if from == "" {
		from = filepath.Join(filepath.Dir(k.dir), "packages")
		cmd := exec.Command(cmp.Or(os.Getenv("MAKE"), "make"), "package", "ARCHS="+k.arch, "ABIS="+k.abi, "VERSION="+k.version, "DIST="+from)
		cmd.Stdout, cmd.Stderr = k.stderr, k.stderr
		// The make that runs this program must not hand its own flags and job server down.
		cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("cannot make the packages: %w", err)
		}
	}
	all, err := filepath.Glob(filepath.Join(from, "*-freebsd*-"+k.arch+".pkg"))
	if err != nil || len(all) == 0 {
		return fmt.Errorf("there is no package for %s in %s: %w", k.arch, from, errors.Join(err, os.ErrNotExist))
	}
	for _, path := range all {
		if err := copyFile(path, filepath.Join(k.dir, "packages", filepath.Base(path)), 0o644); err != nil {
			return err
		}
	}
	list, err := listOf(all[0])
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(k.dir, "files.list"), []byte(list), 0o644)
}

// programs builds what runs on the host besides the suite itself.
func (k kit) programs() error {
	for source, name := range map[string]string{
		"./kit/accept": "accept", "./kit/adversary": "pgadversary",
		"./internal/workertest/testdata/worker": "standin", // tests on other hosts build theirs
	} {
		if err := k.golang("build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X playground/version.version="+k.version, "-o", filepath.Join(k.dir, "bin", name), source); err != nil {
			return err
		}
	}
	// What "write" of a default configuration takes.
	const most = 3 << 20
	info, err := os.Stat(filepath.Join(k.dir, "bin", "pgadversary"))
	if err != nil {
		return err
	}
	if info.Size() > most {
		return fmt.Errorf("the adversary has %d bytes, and a tenant can be given %d", info.Size(), most)
	}
	return nil
}

// faculty builds the example of a faculty, which is a module of its own, as an operator would bring one.
func (k kit) faculty() error {
	return k.golangIn(filepath.Join("examples", "faculty-notebook"), "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(k.dir, "faculty", "notebook"), ".")
}

// golang runs the go command for the kit's platform.
func (k kit) golang(args ...string) error { return k.golangIn(".", args...) }

func (k kit) golangIn(dir string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=freebsd", "GOARCH="+k.arch, "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = k.stderr, k.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot run go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
