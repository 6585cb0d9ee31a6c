package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// listOf describes a package's files for the installer, one a line: kind, mode, owner, group and path. The kinds are "file",
// "sample" (a configuration is made from it where there is none) and "dir".
func listOf(pkg string) (string, error) {
	file, err := os.Open(pkg)
	if err != nil {
		return "", fmt.Errorf("cannot read the package: %w", err)
	}
	defer file.Close()
	plain, err := zstd.NewReader(file)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", pkg, err)
	}
	defer plain.Close()
	var list strings.Builder
	for archive := tar.NewReader(plain); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("cannot read %s: %w", pkg, err)
		}
		if strings.HasPrefix(h.Name, "+") {
			continue
		}
		kind := "file"
		switch {
		case h.Typeflag == tar.TypeDir:
			kind = "dir"
		case strings.HasSuffix(h.Name, ".sample"):
			kind = "sample"
		}
		path := "/" + strings.Trim(h.Name, "/")
		if strings.ContainsAny(path, " \t\n'\"\\$`*?[") {
			return "", fmt.Errorf("%s holds %q, which a shell would not take as it is", pkg, path)
		}
		fmt.Fprintf(&list, "%s %04o %s %s %s\n", kind, h.Mode&0o7777, h.Uname, h.Gname, path)
	}
	if list.Len() == 0 {
		return "", fmt.Errorf("%s holds no files", pkg)
	}
	return list.String(), nil
}

// archiveWindow is how far back equal bytes are found: three packages and all test programs have most of theirs in common. It
// is the most that tar(1) of FreeBSD reads without being told.
const archiveWindow = 128 << 20

// writeArchive packs the folder name below root. The archive appears under its name only when it is complete.
func writeArchive(target, root, name string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(target), ".mkkit-*")
	if err != nil {
		return fmt.Errorf("cannot write the kit: %w", err)
	}
	defer os.Remove(file.Name()) // after the rename it is gone already
	defer file.Close()
	compressed, err := zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(archiveWindow))
	if err != nil {
		return fmt.Errorf("cannot compress the kit: %w", err)
	}
	archive := tar.NewWriter(compressed)
	if err := packTree(archive, root, name); err != nil {
		return err
	}
	if err := errors.Join(archive.Close(), compressed.Close(), file.Chmod(0o644), file.Close()); err != nil {
		return fmt.Errorf("cannot write the kit: %w", err)
	}
	return os.Rename(file.Name(), target)
}

func packTree(archive *tar.Writer, root, name string) error {
	return filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return fmt.Errorf("cannot pack %s: %w", relative, err)
		}
		h.Name, h.Uname, h.Gname, h.Uid, h.Gid = filepath.ToSlash(relative), "root", "wheel", 0, 0
		if info.IsDir() {
			h.Name += "/"
		}
		if err := archive.WriteHeader(h); err != nil || info.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(archive, file)
		return err
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("cannot take %s into the kit: %w", from, err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("cannot take %s into the kit: %w", from, err)
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		return copyFile(path, target, info.Mode().Perm())
	})
}
