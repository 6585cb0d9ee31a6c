package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// An auditLine is what the audit file holds of one record. The id binds the content, the link all that came before. After is the
// last sequence that was committed when the line was written: a line whose record never came to be is the work of a crash, or of a
// disk that refused, exactly if the next batch was written after the same sequence.
type auditLine struct {
	Sequence  int64  `json:"sequence"`
	ID        string `json:"id"`
	Thread    string `json:"thread"`
	Actor     string `json:"actor"`
	Act       Act    `json:"act"`
	Kind      string `json:"kind,omitempty"`
	Clock     int64  `json:"clock"`
	CreatedAt int64  `json:"created_at"`
	Chain     string `json:"chain"`
	After     int64  `json:"after"`
}

func auditLineOf(r Record, chain link, after int64) auditLine {
	return auditLine{r.Sequence, r.ID, r.Thread, r.Actor, r.Act, Kind(r), r.Clock, r.CreatedAt, hex.EncodeToString(chain[:]), after}
}

// digest is the hash of what the line says of its record.
func (l auditLine) digest() link {
	l.After = 0
	text, _ := json.Marshal(l) // texts and numbers always marshal
	return sha256.Sum256(text)
}

// writeAudit writes the lines of one batch at once and syncs them.
func writeAudit(w io.Writer, added []Record, links []link) error {
	var out []byte
	for i, r := range added {
		line, err := json.Marshal(auditLineOf(r, links[i], added[0].Sequence-1))
		if err != nil {
			return err
		}
		out = append(append(out, line...), '\n')
	}
	if n, err := w.Write(out); err != nil {
		return err
	} else if n < len(out) {
		return io.ErrShortWrite
	}
	if s, ok := w.(interface{ Sync() error }); ok {
		return s.Sync()
	}
	return nil
}

// maxAuditFile is when another file is begun, in bytes.
const maxAuditFile = 64 << 20

// An Audit is a folder of files that only grow, one a day and as many as it takes. No file is ever renamed, cut or removed: what
// archives them must copy. It is safe for concurrent use; one process at a time may have it.
type Audit struct {
	folder string
	now    func() time.Time

	mu     sync.Mutex // mu guards the rest
	max    int64      // size of a file that gets no more
	file   *os.File   // nil: the next write opens one
	size   int64
	day    string
	spoilt bool // the last file is not to be written to again
	lock   Enforcement
	locked bool                               // the flag is set, whatever it is worth
	tried  time.Time                          // when it was last looked after
	own    func(*os.File) (Enforcement, bool) // lockAppendOnly
	seal   func(file string) error
}

// Enforcement says whether the kernel keeps an audit file from being changed other than at its end, and what that is worth or why
// it does not.
type Enforcement struct {
	Enforced bool   `json:"enforced"`
	Reason   string `json:"reason"`
}

// OpenAudit opens the audit files in folder, which it makes with mode 0750; the files have mode 0640. Each is made append-only
// where the kernel lets this process do so: by sappnd on FreeBSD, by the append attribute on Linux. Where it does not, seal, if not
// nil, has somebody do it who may, by the file's name in folder; what failed is tried again at a later write. Enforcement tells.
// Such files can be removed only after the flag was cleared by hand, tests included.
func OpenAudit(folder string, seal func(file string) error) (*Audit, error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make audit folder: %w", err)
	}
	a := &Audit{folder: folder, now: time.Now, max: maxAuditFile, own: lockAppendOnly, seal: seal}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.reopen(); err != nil {
		return nil, err
	}
	return a, nil
}

// Enforcement says what the file that is written now is worth.
func (a *Audit) Enforcement() Enforcement {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lock
}

// Write appends whole lines. After an error the next write begins another file, unless this one still ends in a whole line: half a
// line is always a file's last, and a disk that is full for long leaves no heap of files that nobody may remove.
func (a *Audit) Write(lines []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil || a.size >= a.max || a.day < a.today() {
		if err := a.reopen(); err != nil {
			return 0, err
		}
	} else if since := a.now().Sub(a.tried); !a.locked && (since >= sealAgain || since < 0) {
		a.secure()
	}
	n, err := a.file.Write(lines)
	a.size += int64(n)
	if err != nil {
		a.file.Close()
		a.file = nil
	}
	return n, err
}

// Sync makes what was written durable.
func (a *Audit) Sync() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return fs.ErrClosed
	}
	err := a.file.Sync()
	if err != nil { // what the kernel dropped then, it does not report again: what the file holds at its end is not known
		a.file.Close()
		a.file, a.spoilt = nil, true
	}
	return err
}

// Close closes the file. A later Write opens one again.
func (a *Audit) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.file = nil
	return err
}

func (a *Audit) today() string { return a.now().UTC().Format("2006-01-02") }

func (a *Audit) name(day string, number int) string {
	return filepath.Join(a.folder, fmt.Sprintf("records-%s-%06d.jsonl", day, number))
}

// reopen goes on with the last file of today if it is whole and has room, else it begins the next.
func (a *Audit) reopen() error {
	if a.file != nil {
		a.file.Close()
		a.file = nil
	}
	names, err := a.files()
	if err != nil {
		return err
	}
	day, number := max(a.today(), dayOf(last(names))), 1 // a clock that is set back does not bring the order of the files down
	for a.name(day, number) <= last(names) {
		number++
	}
	if number > 1 && !a.spoilt && a.roomy(a.name(day, number-1)) {
		number--
	}
	return a.use(a.name(day, number), day)
}

// roomy reports whether a file ends in a whole line and may grow.
func (a *Audit) roomy(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() >= a.max {
		return false
	}
	end := make([]byte, 1)
	if info.Size() > 0 {
		if _, err := f.ReadAt(end, info.Size()-1); err != nil || end[0] != '\n' {
			return false
		}
	}
	return true
}

func (a *Audit) use(name, day string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("cannot open audit file: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a plain file")
	}
	if err == nil {
		err = syncFolder(a.folder)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("cannot use audit file %q: %w", name, err)
	}
	a.file, a.size, a.day, a.spoilt = file, info.Size(), day, false
	a.secure()
	return nil
}

// sealAgain is how long a file that could not be made append-only waits until that is tried again, at a write.
const sealAgain = time.Minute

// secure makes the file append-only, by its own right or by somebody else's.
func (a *Audit) secure() {
	a.tried = a.now()
	if a.lock, a.locked = a.own(a.file); a.locked || a.seal == nil {
		return
	}
	if err := a.seal(filepath.Base(a.file.Name())); err != nil {
		a.lock.Reason += "; asking for it failed: " + err.Error()
		return
	}
	a.lock, a.locked = a.own(a.file)
}

var fileForm = regexp.MustCompile(`^records-\d{4}-\d{2}-\d{2}-\d{6}\.jsonl$`)

// files returns the paths of all files, in the order they were written.
func (a *Audit) files() ([]string, error) {
	entries, err := os.ReadDir(a.folder) // sorted; unlike Glob it says when it cannot read
	if err != nil {
		return nil, fmt.Errorf("cannot list audit files: %w", err)
	}
	var names []string
	for _, e := range entries {
		if fileForm.MatchString(e.Name()) {
			names = append(names, filepath.Join(a.folder, e.Name()))
		}
	}
	return names, nil
}

// dayOf returns the day in a name that files returns.
func dayOf(name string) string {
	_, day, _ := strings.Cut(filepath.Base(name), "records-")
	return day[:min(len(day), len("2006-01-02"))]
}

func last(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}
