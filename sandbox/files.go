package sandbox

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"playground/fault"
	"playground/job"
)

// fileTimeout bounds one file exchange. What blocks that long is a pipe without a peer or a dead mount.
const fileTimeout = 30 * time.Second

// diagnosticBytes bounds the part of a utility's own error text that is handed on.
const diagnosticBytes = 300

// Exit statuses of the scripts. They stay clear of what shells (126 and up) and utilities (1, 2) use themselves.
const (
	exitDirectory   = 81
	exitMissing     = 82
	exitSpecial     = 83
	exitDenied      = 84
	exitNoFolder    = 85
	exitNotFolder   = 86
	exitShort       = 87 // the new content is incomplete, the old one is still in place
	exitInterrupted = 88 // somebody signalled the helper
	exitPartial     = 89 // incomplete, and in place
)

// prelude begins every script. The clean mode already gives an empty environment; this line makes the utilities' place
// (and so, which program runs) the script's own decision, and turns all text handling to bytes.
const prelude = "LC_ALL=C PATH=/bin:/usr/bin; export LC_ALL PATH\n"

// A target is a path made safe for the scripts: it starts with "/" or "./", so that no utility takes it for an option or
// for a test operator, and its folder was split off here, because $(dirname) would lose trailing newlines.
type target struct{ path, dir string }

func newTarget(name string) (target, error) {
	switch {
	case name == "":
		return target{}, fault.New(fault.Invalid, "the path is empty").WithHint("name a file")
	case strings.IndexByte(name, 0) >= 0:
		return target{}, fault.New(fault.Invalid, "the path holds a NUL byte, which no path can").WithHint("leave that byte out")
	case len(name) > 4095:
		return target{}, fault.New(fault.Invalid, "the path is %d bytes long; 4095 is the most", len(name)).WithHint("give its folder as cwd")
	}
	if !strings.HasPrefix(name, "/") {
		name = "./" + name
	}
	dir := name[:strings.LastIndexByte(name, '/')]
	if dir == "" {
		dir = "/"
	}
	return target{path: name, dir: dir}, nil
}

// runScript runs one clean script with args as its $1 and on.
func (p *Provider) runScript(ctx context.Context, tenant, cwd, script string, stdin []byte, args ...string) (job.Execution, error) {
	spec := job.Spec{
		Tenant:  tenant,
		Command: []byte(prelude + script),
		Mode:    job.Clean,
		Cwd:     cwd,
		Stdin:   stdin,
		Timeout: fileTimeout,
	}
	for _, arg := range args {
		spec.Args = append(spec.Args, []byte(arg))
	}
	// With no tail, the run ends as soon as a stream has passed the limit.
	execution, err := p.jobs.Exec(ctx, spec, p.options.FileBytes, 0)
	return execution, daemonError(err)
}

// scriptError turns a script's end into an error, or nil when it exited with 0. verb and name are for the text.
func scriptError(e job.Execution, verb, name string) error {
	switch e.Outcome {
	case job.Exited:
	case job.TimedOut:
		return fault.New(fault.Unavailable, "cannot %s %q: it took longer than %s", verb, name, fileTimeout).
			WithHint("the path may be a pipe or a file system that hangs; try exec")
	case job.Cancelled:
		return fault.New(fault.Unavailable, "cannot %s %q: the call was cancelled", verb, name)
	case job.Failed:
		text := e.Error
		if text == "" {
			text = "the helper could not be started"
		}
		return fault.New(fault.Unavailable, "cannot %s %q: %s", verb, name, text).WithHint("%s", cmp.Or(NextStep(text), "try again"))
	default:
		return fault.New(fault.Unavailable, "cannot %s %q: the helper ended with %s", verb, name, e.Signal).
			WithHint("the sandbox may be out of memory; end some jobs and try again")
	}
	if e.ExitCode != nil && *e.ExitCode == 0 {
		return nil
	}
	code := -1
	if e.ExitCode != nil {
		code = *e.ExitCode
	}
	return exitError(code, diagnostic(e.Stderr.Head), verb, name)
}

// exitError maps the scripts' own exit statuses; for every other one the utility's text is the best there is.
func exitError(code int, text, verb, name string) error {
	if (code == exitMissing || code == exitNoFolder) && strings.ContainsAny(name[:1], "~$") {
		return fault.New(fault.NotFound, "cannot %s %q: no such file or folder", verb, name).
			WithHint("a path is taken as it is, ~ and variables too; exec shows what they stand for: echo ~ $HOME")
	}
	switch code {
	case exitDirectory:
		return fault.New(fault.Invalid, "cannot %s %q: it is a folder", verb, name).WithHint("name a file; list the folder with exec: ls -la")
	case exitMissing:
		return fault.New(fault.NotFound, "cannot %s %q: no such file", verb, name).
			WithHint("a relative path starts at cwd, or else at the session's working directory; look with exec: ls -la")
	case exitSpecial:
		return fault.New(fault.Invalid, "cannot %s %q: it is a device, pipe or socket, not a file", verb, name).WithHint("use exec")
	case exitDenied:
		return fault.New(fault.Denied, "cannot %s %q: permission denied inside the sandbox", verb, name).
			WithHint("look at owner and mode with exec: ls -la")
	case exitNoFolder:
		return fault.New(fault.NotFound, "cannot %s %q: its folder does not exist", verb, name).WithHint("make it first with exec: mkdir -p")
	case exitNotFolder:
		return fault.New(fault.Invalid, "cannot %s %q: a part of the path is a file, not a folder", verb, name).
			WithHint("look which one with exec: ls -ld")
	case exitShort:
		return fault.New(fault.Unavailable, "cannot %s %q: the data did not arrive whole; the old file is untouched", verb, name).WithHint("try again")
	case exitInterrupted:
		return fault.New(fault.Unavailable, "cannot %s %q: the helper was interrupted; the old file is untouched", verb, name).WithHint("try again")
	case exitPartial:
		return fault.New(fault.Unavailable, "cannot %s %q: the data did not arrive whole; the file now holds a part of it", verb, name).
			WithHint("write it again")
	}
	if text == "" {
		return fault.New(fault.Unavailable, "cannot %s %q: the helper exited with %d", verb, name, code)
	}
	e := fault.New(fault.Unavailable, "cannot %s %q: %s", verb, name, text)
	switch {
	case strings.Contains(text, "No space left"), strings.Contains(text, "quota exceeded"):
		return e.WithHint("the sandbox's disk is full; delete something with exec")
	case strings.Contains(text, "not permitted"):
		return e.WithHint("a file that only grows, such as a pile, takes more with exec: cat part >> file")
	}
	return e
}

// diagnostic makes one short line of a utility's error output.
func diagnostic(stderr []byte) string {
	text := strings.ToValidUTF8(string(stderr[:min(len(stderr), diagnosticBytes)]), "\uFFFD")
	return strings.Join(strings.Fields(text), " ")
}

// isText reports whether data reads back unchanged as a JSON string that a person can look at.
func isText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	for _, b := range data {
		if b == 0 {
			return false
		}
	}
	return true
}
