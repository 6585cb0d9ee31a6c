package sandbox

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"playground/fault"
)

// Written says what Write did.
type Written struct {
	Path   string // as given
	Size   int
	MIME   string
	Atomic bool // the new content took the old one's place in one step
}

// writeScript: $1 path, $2 its folder, $3 the name of a temporary file, $4 the data's size, $5 the largest old file that
// is worth a copy. It prints "atomic" or "inplace".
//
// The replacement is made whole beside the target and renamed over it, so that a reader sees the old content or the new
// one and a full disk leaves the old one. cp -p gives the new file the old one's owner, mode and access lists. Where a
// rename would change more than the content (another owner's file, a file with more than one name, a large old file that
// a copy would double, a device) or cannot work (read-only folder) the target is overwritten in place instead.
// The name of the temporary file comes from the caller's random source: it cannot be foreseen, unlike $$, and noclobber
// makes the shell open it with O_EXCL.
// A symlink is followed first; the x keeps $() from eating newlines that belong to the name.
const writeScript = `nl='
'
p=$1 d=$2
if [ -L "$p" ]; then
	p=$(readlink -f "$1" && echo x) || p=
	p=${p%x}; p=${p%"$nl"}
	case $p in
	/*) d=${p%/*}; [ -n "$d" ] || d=/ ;;
	*) p=$1 d= ;;
	esac
fi
[ -d "$p" ] && exit 81
[ -p "$p" ] && exit 83
[ -S "$p" ] && exit 83
if [ -n "$d" ] && [ ! -d "$d" ]; then
	[ -e "$d" ] && exit 86
	exit 85
fi
[ -n "$d" ] && [ ! -x "$d" ] && exit 84
new=1
if [ -e "$p" ]; then
	new=
	[ -w "$p" ] || exit 84
fi
whole() {
	[ "$(($(wc -c < "$1")))" -eq "$2" ]
}
atomic() {
	[ -n "$d" ] && [ -w "$d" ] || return 1
	[ -n "$new" ] && return 0
	[ -f "$p" ] || return 1
	[ -O "$p" ] || [ "$(id -u)" -eq 0 ] || return 1
	[ -z "$(find "$p" -prune \( -links +1 -o -size +"$1"c \) 2>/dev/null || echo x)" ]
}
if atomic "$5"; then
	t=$d/$3
	trap 'rm -f "$t"; exit 88' HUP INT TERM
	if (set -C; : > "$t") 2>/dev/null; then
		if [ -n "$new" ] || cp -p "$p" "$t" 2>/dev/null; then
			cat > "$t" || { s=$?; rm -f "$t"; exit "$s"; }
			whole "$t" "$4" || { rm -f "$t"; exit 87; }
			mv -f "$t" "$p" || { s=$?; rm -f "$t"; exit "$s"; }
			echo atomic
			exit 0
		fi
		rm -f "$t"
	fi
	trap - HUP INT TERM
fi
[ -n "$new" ] && [ -n "$d" ] && [ ! -w "$d" ] && exit 84
cat > "$p" || exit
[ ! -f "$p" ] || whole "$p" "$4" || exit 89
echo inplace
`

// Write replaces a file's content with data, or makes the file. A missing folder is not made.
func (p *Provider) Write(ctx context.Context, tenant, session, name, cwd string, data []byte) (Written, error) {
	if err := p.check(tenant, session); err != nil {
		return Written{}, err
	}
	if err := checkCwd(cwd); err != nil {
		return Written{}, err
	}
	file, err := newTarget(name)
	if err != nil {
		return Written{}, err
	}
	limit := p.options.FileBytes
	if len(data) > limit {
		return Written{}, fault.New(fault.TooLarge, "cannot write %q: %d bytes are over the limit of %d", name, len(data), limit).
			WithHint("write it in parts and join them with exec: cat part1 part2 > file")
	}
	if data == nil {
		data = []byte{} // an empty file, not "no input"
	}
	temp := ".playground-" + rand.Text()
	e, err := p.runScript(ctx, tenant, cwd, writeScript, data, file.path, file.dir, temp, strconv.Itoa(len(data)), strconv.Itoa(limit))
	if err != nil {
		return Written{}, err
	}
	if err := scriptError(e, "write", name); err != nil {
		return Written{}, err
	}
	return Written{
		Path:   name,
		Size:   len(data),
		MIME:   mimetype.Detect(data).String(),
		Atomic: strings.TrimSpace(string(e.Stdout.Head)) == "atomic",
	}, nil
}
