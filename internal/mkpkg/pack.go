package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A build is everything that goes into one package.
type build struct {
	Stage    string // the folder that "make install-files DESTDIR=" filled
	Entries  []entry
	Manifest manifest
	Time     time.Time // of every entry, so that equal input gives equal bytes
}

// newBuild checks the stage against the list and completes the manifest.
func newBuild(stage string, entries []entry, m manifest, at time.Time) (*build, error) {
	b := &build{Stage: stage, Entries: entries, Manifest: m, Time: at}
	b.Manifest.Files, b.Manifest.Directories = map[string]string{}, map[string]directory{}
	root, err := os.OpenRoot(stage)
	if err != nil {
		return nil, fmt.Errorf("cannot open the stage: %w", err)
	}
	defer root.Close()
	for i := range b.Entries {
		if err := b.measure(root, &b.Entries[i]); err != nil {
			return nil, err
		}
	}
	if err := b.nothingElse(root); err != nil {
		return nil, err
	}
	b.Manifest.Users, b.Manifest.Groups = names(entries)
	b.Manifest.Scripts, err = scripts(entries)
	return b, err
}

// measure takes one entry's checksum, size and mode into the manifest.
func (b *build) measure(root *os.Root, e *entry) error {
	if e.Dir {
		b.Manifest.Directories[e.Path] = directory{e.Owner, e.Group, fmt.Sprintf("%04o", e.Mode)}
		return nil
	}
	info, err := root.Lstat(e.Path[1:])
	if err != nil {
		return fmt.Errorf("%q is listed but not staged: %w", e.Path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%q is not a regular file", e.Path)
	}
	if e.Mode == 0 {
		e.Mode = info.Mode().Perm()
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 || e.Mode&0o002 != 0 {
		return fmt.Errorf("%q is staged with mode %v, which a package must not have", e.Path, info.Mode())
	}
	file, err := root.Open(e.Path[1:])
	if err != nil {
		return fmt.Errorf("cannot read a staged file: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", e.Path, err)
	}
	b.Manifest.Files[e.Path] = sumKind + hex.EncodeToString(hash.Sum(nil))
	b.Manifest.FlatSize += size
	return nil
}

// nothingElse refuses staged files that the list forgot: they would be missing on every host.
func (b *build) nothingElse(root *os.Root) error {
	var forgotten []error
	err := fs.WalkDir(root.FS(), ".", func(name string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() {
			return err
		}
		if _, listed := b.Manifest.Files["/"+name]; !listed {
			forgotten = append(forgotten, fmt.Errorf("%q is staged but not listed", "/"+name))
		}
		return nil
	})
	return errors.Join(append(forgotten, err)...)
}

// names returns the users and groups that the package makes: every owner but the system's.
func names(entries []entry) (users, groups []string) {
	user, group := map[string]bool{"root": true}, map[string]bool{"wheel": true}
	for _, e := range entries {
		if !user[e.Owner] {
			user[e.Owner] = true
			users = append(users, e.Owner)
		}
		if !group[e.Group] {
			group[e.Group] = true
			groups = append(groups, e.Group)
		}
	}
	// The scripts make the daemon's user together with its group, whether it owns files or not.
	if !user["playground"] {
		users = append(users, "playground")
	}
	return users, groups
}

// write writes the package: a tar in zstd, both manifests first, then the files, then the folders.
func (b *build) write(w io.Writer) (err error) {
	// One goroutine: the bytes must not depend on the machine. 8 MiB is what every zstd reader takes.
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err != nil {
		return fmt.Errorf("cannot compress: %w", err)
	}
	defer func() { err = errors.Join(err, compressed.Close()) }()
	archive := tar.NewWriter(compressed)
	if err := b.writeManifests(archive); err != nil {
		return err
	}
	root, err := os.OpenRoot(b.Stage)
	if err != nil {
		return fmt.Errorf("cannot open the stage: %w", err)
	}
	defer root.Close()
	for _, e := range b.Entries {
		if e.Dir {
			continue
		}
		if err := b.writeFile(archive, root, e); err != nil {
			return err
		}
	}
	for _, e := range b.Entries {
		if !e.Dir {
			continue
		}
		if err := archive.WriteHeader(b.header(e, 0)); err != nil {
			return fmt.Errorf("cannot write %q: %w", e.Path, err)
		}
	}
	return archive.Close()
}

func (b *build) writeManifests(archive *tar.Writer) error {
	for _, part := range []struct {
		name string
		manifest
	}{{"+COMPACT_MANIFEST", b.Manifest.compact()}, {"+MANIFEST", b.Manifest}} {
		text, err := part.encode()
		if err != nil {
			return err
		}
		header := b.header(entry{Path: part.name, Owner: "root", Group: "wheel", Mode: 0o644}, int64(len(text)))
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("cannot write %s: %w", part.name, err)
		}
		if _, err := archive.Write(text); err != nil {
			return fmt.Errorf("cannot write %s: %w", part.name, err)
		}
	}
	return nil
}

func (b *build) writeFile(archive *tar.Writer, root *os.Root, e entry) error {
	file, err := root.Open(e.Path[1:])
	if err != nil {
		return fmt.Errorf("cannot read a staged file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", e.Path, err)
	}
	if err := archive.WriteHeader(b.header(e, info.Size())); err != nil {
		return fmt.Errorf("cannot write %q: %w", e.Path, err)
	}
	hash := sha256.New()
	if _, err := io.Copy(archive, io.TeeReader(file, hash)); err != nil {
		return fmt.Errorf("cannot write %q: %w", e.Path, err)
	}
	if sumKind+hex.EncodeToString(hash.Sum(nil)) != b.Manifest.Files[e.Path] {
		return fmt.Errorf("%q changed while it was packed", e.Path)
	}
	return nil
}

// header describes one entry. Owners are names: pkg looks the ids up on the host, after the scripts made the user.
func (b *build) header(e entry, size int64) *tar.Header {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: e.Path, Size: size, Mode: int64(e.Mode), Uname: e.Owner, Gname: e.Group,
		ModTime: b.Time, Format: tar.FormatUSTAR,
	}
	if e.Dir {
		h.Typeflag, h.Name = tar.TypeDir, strings.TrimSuffix(e.Path, "/")+"/"
	}
	return h
}
