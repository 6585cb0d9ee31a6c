package bundle

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"playground/fault"
)

// A Builder is what makes executables of a source tree.
type Builder string

// The builders.
const (
	BuilderGo      Builder = "go"      // "go build" of main packages
	BuilderCargo   Builder = "cargo"   // "cargo build --release --locked"
	BuilderCommand Builder = "command" // a shell command of the operator's that leaves executables in $OUT
)

// Bounds of a recipe and of what comes out of it.
const (
	maxBinaries     = 64
	maxBinaryBytes  = 256 << 20
	maxCohortBytes  = 1 << 30
	maxCommandBytes = 16 << 10
	maxLogBytes     = 16 << 20
	defaultTimeout  = 30 * time.Minute
)

// A Spec is what to build and how.
type Spec struct {
	Name    string // of the bundle
	Source  string // the operator's folder
	Builder Builder
	Command string // for BuilderCommand: sh(1) text, run in a copy of the source, that leaves executables in $OUT
	// Binaries are the only files that are taken out, by name. The value is what makes one: for Go a package
	// ("./cmd/notebook"), for Cargo a binary target, "" for what is called like the file itself; unused by a command.
	Binaries map[string]string
	Network  bool          // the build may use the host's network
	Vendor   bool          // fetch dependencies on the host first, with its own go or cargo, which runs none of them
	Timeout  time.Duration // of the build itself; 0 = 30 minutes
	Force    bool          // build also what was built already: a newer compiler is no part of the fingerprint
}

func (s *Spec) validate() error {
	if err := ValidName(s.Name); err != nil {
		return err
	}
	switch s.Builder {
	case BuilderGo, BuilderCargo:
		if s.Command != "" {
			return fault.New(fault.Invalid, "builder %q takes no command", s.Builder).WithHint("use the builder \"command\"")
		}
	case BuilderCommand:
		if strings.TrimSpace(s.Command) == "" || len(s.Command) > maxCommandBytes || strings.ContainsRune(s.Command, 0) {
			return fault.New(fault.Invalid, "builder \"command\" needs a command of 1 to %d bytes", maxCommandBytes)
		}
		if s.Vendor {
			return fault.New(fault.Invalid, "only go and cargo dependencies can be fetched").WithHint("leave --vendor out")
		}
	case "":
		return fault.New(fault.Invalid, "the source %q has no go.mod and no Cargo.toml at its top", s.Source).
			WithHint("name what builds it: --builder go, --builder cargo, or --command TEXT")
	default:
		return fault.New(fault.Invalid, "builder %q is unknown", s.Builder).WithHint("use go, cargo or command")
	}
	if len(s.Binaries) == 0 || len(s.Binaries) > maxBinaries {
		return fault.New(fault.Invalid, "a bundle has 1 to %d executables, not %d", maxBinaries, len(s.Binaries)).
			WithHint("name each one: --binary NAME, or --binary NAME=./cmd/NAME")
	}
	for name, target := range s.Binaries {
		if !binaryPattern.MatchString(name) || name == factsFile || name == logFile || strings.HasSuffix(name, ".new") {
			return fault.New(fault.Invalid, "executable name %q is not valid", name).WithHint("use letters, digits, \".\", \"_\" and \"-\"")
		}
		if err := s.validTarget(name, target); err != nil {
			return err
		}
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	if s.Timeout < time.Second {
		return fault.New(fault.Invalid, "a build cannot end within %v", s.Timeout).WithHint("give it at least a second: --timeout %v is the default", defaultTimeout)
	}
	return nil
}

// validTarget keeps a target from becoming an option or leaving the source.
func (s *Spec) validTarget(name, target string) error {
	bad := func(hint string) error {
		return fault.New(fault.Invalid, "%q does not say what makes executable %q", target, name).WithHint("%s", hint)
	}
	if strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) || strings.HasPrefix(target, "-") {
		return bad("use a package path or a target's name, without spaces")
	}
	below, ok := strings.CutPrefix(target, "./")
	if s.Builder == BuilderGo && target != "" && target != "." && (!ok || !filepath.IsLocal(below) || path.Clean(below) != below) {
		return bad("use a package below the source, such as ./cmd/" + name)
	}
	return nil
}

// describe writes the recipe into a fingerprint: whatever changes what comes out.
func (s *Spec) describe(w io.Writer) {
	fmt.Fprintf(w, "recipe 1 %s/%s %s network=%v vendor=%v\ncommand %q\n", runtime.GOOS, runtime.GOARCH, s.Builder, s.Network, s.Vendor, s.Command)
	for _, name := range slices.Sorted(maps.Keys(s.Binaries)) {
		fmt.Fprintf(w, "binary %q %q\n", name, s.Binaries[name])
	}
}

// script is the shell text of the build. It runs in a copy of the source, since many builds write beside their input; the
// original at $SRC cannot be written. Its arguments are names and targets in turn, so that none of them is ever part of a
// shell text.
func (s *Spec) script() []byte {
	const head = `set -eu
umask 022
SRC=/workspace/src OUT=/workspace/out HOME=/workspace/scratch TMPDIR=/workspace/scratch/tmp
PATH=/usr/local/go/bin:/usr/local/cargo/bin:/usr/local/bin:$PATH
export SRC OUT HOME TMPDIR PATH
mkdir -p "$OUT" "$HOME" "$TMPDIR"
cp -R "$SRC" "$HOME/tree"
cd "$HOME/tree"
`
	switch s.Builder {
	case BuilderGo:
		return []byte(head + s.goScript())
	case BuilderCargo:
		return []byte(head + s.cargoScript())
	}
	return []byte(head + "eval \"$1\"\n")
}

// fewJobs: as many compilers as a large host has processors would not fit into a sandbox's memory.
const fewJobs = `jobs=$(getconf _NPROCESSORS_ONLN) || jobs=2
[ "$jobs" -le 4 ] || jobs=4
`

func (s *Spec) goScript() string {
	text := "export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false GOCACHE=\"$HOME/cache\" GOPATH=\"$HOME/go\" GOTELEMETRY=off\n"
	if !s.Network {
		text += "export GOPROXY=off\n"
	}
	return text + fewJobs + `command -v go >/dev/null || { echo "there is no go in this sandbox's PATH: install it on the host (Linux) or into the template (FreeBSD)" >&2; exit 127; }
go version
while [ $# -gt 1 ]; do
	echo "building $1 from $2"
	go build -p "$jobs" -trimpath -ldflags '-s -w' -o "$OUT/$1" "$2"
	shift 2
done
`
}

func (s *Spec) cargoScript() string {
	offline := "--offline"
	if s.Network {
		offline = ""
	}
	return fewJobs + `command -v cargo >/dev/null || { echo "there is no cargo in this sandbox's PATH: install it on the host (Linux) or into the template (FreeBSD)" >&2; exit 127; }
cargo --version
while [ $# -gt 1 ]; do
	echo "building $1 from target $2"
	cargo build --release --locked --jobs "$jobs" ` + offline + ` --target-dir "$HOME/target" --bin "$2"
	cp "$HOME/target/release/$2" "$OUT/$1"
	shift 2
done
`
}

// args are the script's parameters.
func (s *Spec) args() [][]byte {
	if s.Builder == BuilderCommand {
		return [][]byte{[]byte(s.Command)}
	}
	var args [][]byte
	for _, name := range slices.Sorted(maps.Keys(s.Binaries)) {
		target := s.Binaries[name]
		switch {
		case target != "":
		case s.Builder == BuilderGo:
			target = "."
		default:
			target = name
		}
		args = append(args, []byte(name), []byte(target))
	}
	return args
}

// Recognise tells the builder from a command, or from the file that a source has at its top: Go's before Cargo's. It is "" for
// neither.
func Recognise(source, command string) Builder {
	if command != "" {
		return BuilderCommand
	}
	for _, kind := range []struct {
		file    string
		builder Builder
	}{{"go.mod", BuilderGo}, {"Cargo.toml", BuilderCargo}} {
		if info, err := os.Stat(filepath.Join(source, kind.file)); err == nil && info.Mode().IsRegular() {
			return kind.builder
		}
	}
	return ""
}
