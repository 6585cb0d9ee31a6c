package sandbox

import (
	"context"
	"strconv"

	"github.com/gabriel-vasile/mimetype"

	"playground/fault"
)

// A File is what Read returns.
type File struct {
	Data []byte
	MIME string // as its content says; "text/plain; charset=utf-8" for what nothing else is known of
	Text bool   // valid UTF-8 without a NUL byte
}

// readScript: $1 path, $2 its folder, $3 the most bytes to send. What is not a plain file is refused before it is
// opened, because opening a pipe blocks and reading a device has effects. The file may still change between the test
// and the open; then the time limit holds. head is told to stop one byte after the limit, so that "exactly at the limit"
// and "over it" can be told apart.
const readScript = `[ -d "$1" ] && exit 81
if [ ! -e "$1" ]; then
	[ -d "$2" ] && [ ! -x "$2" ] && exit 84
	[ -e "$2" ] && [ ! -d "$2" ] && exit 86
	exit 82
fi
[ -f "$1" ] || exit 83
[ -r "$1" ] || exit 84
exec head -c "$3" < "$1"
`

// Read returns a file's bytes, exactly. It refuses folders, devices and files over the limit.
func (p *Provider) Read(ctx context.Context, tenant, session, name, cwd string) (File, error) {
	if err := p.check(tenant, session); err != nil {
		return File{}, err
	}
	if err := checkCwd(cwd); err != nil {
		return File{}, err
	}
	file, err := newTarget(name)
	if err != nil {
		return File{}, err
	}
	limit := p.options.FileBytes
	e, err := p.runScript(ctx, tenant, cwd, readScript, nil, file.path, file.dir, strconv.Itoa(limit+1))
	if err != nil {
		return File{}, err
	}
	// Before the outcome: a run that passed the limit was cancelled for just that.
	if e.Stdout.Total > int64(limit) {
		return File{}, fault.New(fault.TooLarge, "cannot read %q: it is larger than %d bytes, the most that read returns", name, limit).
			WithHint("read a part of it with exec: head -c, tail -c, sed -n")
	}
	if err := scriptError(e, "read", name); err != nil {
		return File{}, err
	}
	data := e.Stdout.Head
	if int64(len(data)) != e.Stdout.Total {
		return File{}, fault.New(fault.Internal, "cannot read %q: %d of %d bytes arrived", name, len(data), e.Stdout.Total)
	}
	return File{Data: data, MIME: mimetype.Detect(data).String(), Text: isText(data)}, nil
}
