package tool

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"

	"playground/fault"
	"playground/workloop/loop"
)

// Bounds of the file tools.
const (
	maxFile    = 256 << 10 // bytes of a file that is read or written
	maxEntries = 500       // of a listing
	maxMatches = 100       // of a search
	maxSearch  = 20_000    // files that a search looks into
	maxPattern = 512       // bytes of a search's expression
	maxName    = 1024      // bytes of a path: one of many folders in each other could not be taken away again
	lineBytes  = 240       // of a match that is shown
)

// FileTools returns the names of the data tools, which a sandboxed run cannot be served.
func FileTools() []string {
	var names []string
	for _, t := range dataTools() {
		names = append(names, t.Name)
	}
	return names
}

func dataTools() []loop.Tool {
	const where = `"path":{"type":"string","description":"path below the data folder, without a leading slash"}`
	return []loop.Tool{
		define("read_file", "Read a file of the data folder, at most 256 KiB.", where, "path"),
		define("write_file", "Write a file of the data folder, in place of what it held, at most 256 KiB. Missing folders are made.",
			where+`,"text":{"type":"string"}`, "path", "text"),
		define("list_dir", "List a folder of the data folder: kind, size and name, one a line.", where),
		define("search", "Find lines in the data folder's files that match a regular expression (RE2).",
			`"pattern":{"type":"string"},"path":{"type":"string","description":"folder to look in; all where it is left out"}`, "pattern"),
	}
}

// A folder is a tree that file tools may not leave: every path is opened below it, and a symbolic link that leads out is an error.
type folder struct{ dir string }

func (f *folder) tools() map[string]run {
	return map[string]run{"read_file": f.read, "write_file": f.write, "list_dir": f.list, "search": f.search}
}

// open opens the folder, which is made where it is missing: the first run of a principal finds it empty.
func (f *folder) open() (*os.Root, error) {
	if err := os.MkdirAll(f.dir, 0o750); err != nil {
		return nil, fault.Hide(fault.Unavailable, err, "the data folder cannot be opened")
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, fault.Hide(fault.Unavailable, err, "the data folder cannot be opened")
	}
	return root, nil
}

// enter opens the folder for a path that an agent named, which it returns as local does.
func (f *folder) enter(path string) (*os.Root, string, error) {
	name, err := local(path)
	if err != nil {
		return nil, "", err
	}
	root, err := f.open()
	return root, name, err
}

// local returns a clean path below the folder; "" and "/" are the folder itself.
func local(name string) (string, error) {
	if len(name) > maxName {
		return "", &argumentError{fmt.Sprintf("the path has more than %d bytes", maxName)}
	}
	if strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return "", &argumentError{"the path holds bytes that no name has"}
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", &argumentError{fmt.Sprintf("path %q leads out of the folder", name)}
	}
	return clean, nil
}

// pathError tells of a file system's error without the host's path.
func pathError(verb, name string, err error) error {
	why, kind := "it cannot be used", fault.Invalid
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why, kind = "there is no such file", fault.NotFound
	case errors.Is(err, fs.ErrPermission):
		why, kind = "permission denied", fault.Denied
	case errors.Is(err, syscall.ENOTDIR):
		why = "a part of the path is not a folder"
	case errors.Is(err, syscall.EISDIR):
		why = "it is a folder"
	case errors.Is(err, syscall.ENOSPC):
		why, kind = "the disk is full", fault.Unavailable
	case strings.Contains(err.Error(), "escapes"):
		why, kind = "it leads out of the folder", fault.Denied
	}
	return fault.Hide(kind, err, "cannot %s %q: %s", verb, name, why)
}

// readFile returns the content of a plain file of at most maxFile bytes. It never waits: a pipe is refused, not opened for good.
func readFile(root *os.Root, name string) ([]byte, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError("read", name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, pathError("read", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fault.Invalid, "cannot read %q: it is not a plain file", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, pathError("read", name, err)
	}
	if len(data) > maxFile {
		return nil, fault.New(fault.TooLarge, "cannot read %q: it is over the limit of %d bytes", name, maxFile)
	}
	return data, nil
}

// fileAnswer shows a file: as text if it is text, else in base64.
func fileAnswer(name string, data []byte) (loop.Result, error) {
	if utf8.Valid(data) && !strings.ContainsRune(string(data), 0) {
		return answer(string(data), map[string]any{"path": name, "bytes": len(data)})
	}
	return answer(base64.StdEncoding.EncodeToString(data), map[string]any{"path": name, "bytes": len(data), "encoding": "base64"})
}

func (f *folder) read(_ context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := errors.Join(decode(args, &in), need("path", in.Path)); err != nil {
		return loop.Result{}, err
	}
	root, name, err := f.enter(in.Path)
	if err != nil {
		return loop.Result{}, err
	}
	defer root.Close()
	data, err := readFile(root, name)
	if err != nil {
		return loop.Result{}, err
	}
	return fileAnswer(in.Path, data)
}

func (f *folder) write(_ context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Path string  `json:"path"`
		Text *string `json:"text"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	if err := need("path", in.Path); err != nil {
		return loop.Result{}, err
	}
	if in.Text == nil {
		return loop.Result{}, &argumentError{"text is missing"}
	}
	root, name, err := f.enter(in.Path)
	if err != nil {
		return loop.Result{}, err
	}
	defer root.Close()
	if err := writeFile(root, name, []byte(*in.Text)); err != nil {
		return loop.Result{}, err
	}
	return answer(fmt.Sprintf("wrote %d bytes", len(*in.Text)), map[string]any{"path": in.Path, "bytes": len(*in.Text)})
}

// writeFile replaces a file in one step, so that a reader sees the old content or the new and nothing between.
func writeFile(root *os.Root, name string, data []byte) error {
	if len(data) > maxFile {
		return fault.New(fault.TooLarge, "cannot write %q: %d bytes are over the limit of %d", name, len(data), maxFile)
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o750); err != nil {
			return pathError("write", name, err)
		}
	}
	if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "cannot write %q: it is not a plain file", name)
	}
	temp := path.Join(path.Dir(name), ".playground-"+rand.Text())
	err := root.WriteFile(temp, data, 0o640)
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
		return pathError("write", name, err)
	}
	return nil
}

func (f *folder) list(_ context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	root, name, err := f.enter(in.Path)
	if err != nil {
		return loop.Result{}, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		return loop.Result{}, pathError("list", in.Path, err)
	}
	var b strings.Builder
	for _, entry := range entries[:min(len(entries), maxEntries)] {
		kind, size := "file", int64(0)
		if info, err := entry.Info(); err == nil {
			size = info.Size()
		}
		switch {
		case entry.IsDir():
			kind = "folder"
		case !entry.Type().IsRegular():
			kind = "other"
		}
		fmt.Fprintf(&b, "%-6s %8d %s\n", kind, size, entry.Name())
	}
	return answer(b.String(), map[string]any{"path": in.Path, "total": len(entries), "shown": min(len(entries), maxEntries)})
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

func (f *folder) search(ctx context.Context, _ string, args json.RawMessage) (loop.Result, error) {
	var in struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}
	if err := decode(args, &in); err != nil {
		return loop.Result{}, err
	}
	if in.Pattern == "" || len(in.Pattern) > maxPattern {
		return loop.Result{}, &argumentError{fmt.Sprintf("pattern must have 1 to %d bytes", maxPattern)}
	}
	pattern, err := regexp.Compile(in.Pattern)
	if err != nil {
		return loop.Result{}, &argumentError{err.Error()}
	}
	root, name, err := f.enter(in.Path)
	if err != nil {
		return loop.Result{}, err
	}
	defer root.Close()
	s := searcher{ctx: ctx, root: root, pattern: pattern}
	if err := fs.WalkDir(root.FS(), name, s.visit); err != nil && !errors.Is(err, errEnough) {
		return loop.Result{}, pathError("search", in.Path, err)
	}
	return answer(s.text.String(), map[string]any{"matches": s.matches, "files": s.files, "complete": s.matches < maxMatches && s.files < maxSearch})
}

// A searcher is one search.
type searcher struct {
	ctx            context.Context
	root           *os.Root
	pattern        *regexp.Regexp
	text           strings.Builder
	matches, files int
}

func (s *searcher) visit(name string, entry fs.DirEntry, err error) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if err != nil {
		if name == "." || entry == nil {
			return err
		}
		return nil // what cannot be read is not searched
	}
	if !entry.Type().IsRegular() {
		return nil
	}
	if s.files++; s.files > maxSearch {
		return errEnough
	}
	data, err := readFile(s.root, name)
	if err != nil || !utf8.Valid(data) {
		return nil
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if !s.pattern.MatchString(line) {
			continue
		}
		fmt.Fprintf(&s.text, "%s:%d: %s\n", name, number, line[:min(len(line), lineBytes)])
		if s.matches++; s.matches >= maxMatches {
			return errEnough
		}
	}
	return nil
}
