// Command mkpkg makes packages that pkg(8) installs, without FreeBSD: it builds the programs for each architecture, stages
// them as "make install" does, and packs what pkg-plist lists together with manifests, scripts and messages.
//
//	go run ./internal/mkpkg -arch amd64,arm64 -abi 14,15 -version "$(git describe)" -out dist
//
// The version of FreeBSD is only a name that pkg compares; the programs are static and the same for all. With
// SOURCE_DATE_EPOCH set, equal sources give equal bytes.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "mkpkg:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	archs   []string
	majors  []int
	source  string // the repository
	stage   string // a stage made before, or "" to build one
	plist   string
	version string
	out     string
	time    time.Time
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(o.plist)
	if err != nil {
		return fmt.Errorf("cannot read the packing list: %w", err)
	}
	entries, err := parsePlist(text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.plist, err)
	}
	for _, arch := range o.archs {
		if err := o.packages(arch, entries, stdout, stderr); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (options, error) {
	o := options{source: "."}
	set := flag.NewFlagSet("mkpkg", flag.ContinueOnError)
	set.SetOutput(stderr)
	archs := set.String("arch", "amd64,arm64", "architectures, with commas")
	majors := set.String("abi", "13,14,15", "major versions of FreeBSD, with commas")
	set.StringVar(&o.stage, "stage", "", "pack this `folder` instead of building (one architecture only)")
	set.StringVar(&o.plist, "plist", "pkg-plist", "packing list")
	set.StringVar(&o.version, "version", "devel", "what git describe says")
	set.StringVar(&o.out, "out", "dist", "`folder` for the packages")
	if err := set.Parse(args); err != nil {
		return o, fmt.Errorf("bad usage: %w", err)
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	for arch := range strings.SplitSeq(*archs, ",") {
		if !slices.Contains([]string{"amd64", "arm64"}, arch) {
			return o, fmt.Errorf("cannot build for architecture %q: want amd64 or arm64", arch)
		}
		o.archs = append(o.archs, arch)
	}
	for text := range strings.SplitSeq(*majors, ",") {
		major, err := strconv.Atoi(text)
		if err != nil || major < 13 || major > 99 {
			return o, fmt.Errorf("cannot build for FreeBSD %q: want a major version from 13 up", text)
		}
		o.majors = append(o.majors, major)
	}
	if o.stage != "" && len(o.archs) > 1 {
		return o, fmt.Errorf("a stage holds programs of one architecture: name it with -arch")
	}
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil || seconds < 0 || seconds >= 1<<33 { // what a tar header holds
		return o, fmt.Errorf("SOURCE_DATE_EPOCH is %q: want seconds since 1970", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	o.time = time.Unix(seconds, 0)
	return o, nil
}

// packages makes one architecture's packages: one build, then one file for each version of FreeBSD.
func (o options) packages(arch string, entries []entry, stdout, stderr io.Writer) error {
	stage := o.stage
	if stage == "" {
		work, err := os.MkdirTemp("", "mkpkg-")
		if err != nil {
			return fmt.Errorf("cannot make a folder to build in: %w", err)
		}
		defer os.RemoveAll(work)
		stage = filepath.Join(work, "stage")
		if err := o.build(arch, filepath.Join(work, "bin"), stage, stderr); err != nil {
			return err
		}
	}
	for _, major := range o.majors {
		name, err := o.pack(platform{arch, major}, stage, entries)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, name)
	}
	return nil
}

// build makes the programs for arch and stages them. Make does both: there is one description of either.
func (o options) build(arch, bin, stage string, stderr io.Writer) error {
	for _, target := range []string{"build", "install-files"} {
		cmd := exec.Command(cmp.Or(os.Getenv("MAKE"), "make"), target, "BIN="+bin, "DESTDIR="+stage, "PREFIX="+prefix, "VERSION="+o.version)
		cmd.Dir, cmd.Stdout, cmd.Stderr = o.source, stderr, stderr
		// The make that runs this program must not hand its own flags and job server down.
		cmd.Env = append(os.Environ(), "GOOS=freebsd", "GOARCH="+arch, "CGO_ENABLED=0", "MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("cannot make %s for freebsd/%s: %w", target, arch, err)
		}
	}
	return nil
}

// pack writes one package and returns its name. It appears under its name only when it is complete.
func (o options) pack(p platform, stage string, entries []entry) (string, error) {
	m := newManifest(packageVersion(o.version, o.time), p)
	m.Annotations = map[string]string{"built_from": o.version}
	if err := o.texts(&m); err != nil {
		return "", err
	}
	b, err := newBuild(stage, slices.Clone(entries), m, o.time)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return "", fmt.Errorf("cannot make the folder for packages: %w", err)
	}
	name := filepath.Join(o.out, fmt.Sprintf("%s-%s-freebsd%d-%s.pkg", m.Name, m.Version, p.major, p.goarch))
	file, err := os.CreateTemp(o.out, ".mkpkg-*")
	if err != nil {
		return "", fmt.Errorf("cannot write a package: %w", err)
	}
	defer os.Remove(file.Name()) // after the rename it is gone already
	defer file.Close()
	if err := b.write(file); err != nil {
		return "", err
	}
	if err := file.Chmod(0o644); err != nil {
		return "", fmt.Errorf("cannot write a package: %w", err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("cannot write a package: %w", err)
	}
	return name, os.Rename(file.Name(), name)
}

// texts reads the description and the messages, which are the port's.
func (o options) texts(m *manifest) error {
	for name, use := range map[string]func(text string) error{
		"pkg-descr": func(text string) error {
			m.Desc = percent(strings.TrimSpace(text))
			return nil
		},
		"pkg-message": func(text string) (err error) {
			m.Messages, err = parseMessages(text)
			return err
		},
	} {
		text, err := os.ReadFile(filepath.Join(o.source, "port", name))
		if err != nil {
			return fmt.Errorf("cannot read the port's text: %w", err)
		}
		if err := plainText(string(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := use(string(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
