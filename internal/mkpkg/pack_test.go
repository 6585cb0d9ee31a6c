package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// testList is a small list with every kind of entry.
const testList = `sbin/tool
@(root,wheel,0555) etc/rc.d/tool
@sample(root,playground,0640) etc/tool/tool.toml.sample
@sample etc/tool/other.conf.sample
@dir(root,wheel,0711) /var/db/tool
@dir(playground,playground,0750) /var/log/tool
`

// testStage stages the files of testList.
func testStage(t *testing.T) string {
	t.Helper()
	stage := t.TempDir()
	for name, mode := range map[string]os.FileMode{
		"sbin/tool": 0o755, "etc/rc.d/tool": 0o755, "etc/tool/tool.toml.sample": 0o644, "etc/tool/other.conf.sample": 0o644,
	} {
		path := filepath.Join(stage, prefix, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("the text of "+name+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	return stage
}

// inRepository gives mkpkg's options as if it were started at the top of the repository.
func inRepository(t *testing.T, stage, list string) options {
	t.Helper()
	plist := filepath.Join(t.TempDir(), "pkg-plist")
	if err := os.WriteFile(plist, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	return options{source: "../..", stage: stage, plist: plist, version: "v1.2.3", out: t.TempDir(), time: time.Unix(1_700_000_000, 0)}
}

func pack(t *testing.T, o options, p platform) (string, error) {
	t.Helper()
	text, err := os.ReadFile(o.plist)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := parsePlist(text)
	if err != nil {
		t.Fatal(err)
	}
	return o.pack(p, o.stage, entries)
}

// A member is one entry of a package that was read back.
type member struct {
	*tar.Header
	data []byte
}

// unpack reads a package back, as pkg does.
func unpack(t *testing.T, name string) []member {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	var all []member
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, member{header, data})
	}
}

// manifests returns the two manifests, which must come first.
func manifests(t *testing.T, members []member) (compact, full manifest) {
	t.Helper()
	for i, want := range []struct {
		name string
		into *manifest
	}{{"+COMPACT_MANIFEST", &compact}, {"+MANIFEST", &full}} {
		if len(members) <= i || members[i].Name != want.name {
			t.Fatalf("entry %d is not %s", i, want.name)
		}
		decoder := json.NewDecoder(bytes.NewReader(members[i].data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(want.into); err != nil {
			t.Fatalf("%s: %v", want.name, err)
		}
	}
	return compact, full
}

func TestPackage(t *testing.T) {
	name, err := pack(t, inRepository(t, testStage(t), testList), platform{"arm64", 14})
	if err != nil {
		t.Fatal(err)
	}
	if base := filepath.Base(name); base != "playground-1.2.3-freebsd14-arm64.pkg" {
		t.Errorf("the package is called %q", base)
	}
	members := unpack(t, name)
	compact, full := manifests(t, members)
	var listing []string
	for _, m := range members[2:] {
		listing = append(listing, fmt.Sprintf("%s %s:%s %04o", m.Name, m.Uname, m.Gname, m.Mode))
	}
	want := []string{
		"/usr/local/etc/rc.d/tool root:wheel 0555",
		"/usr/local/etc/tool/other.conf.sample root:wheel 0644",
		"/usr/local/etc/tool/tool.toml.sample root:playground 0640",
		"/usr/local/sbin/tool root:wheel 0755",
		"/var/db/tool/ root:wheel 0711",
		"/var/log/tool/ playground:playground 0750",
	}
	if diff := cmp.Diff(want, listing); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	checkSums(t, full, members[2:])
	if full.ABI != "FreeBSD:14:aarch64" || full.Arch != "freebsd:14:aarch64:64" {
		t.Errorf("abi %q, arch %q", full.ABI, full.Arch)
	}
	if !slices.Equal(full.Users, []string{"playground"}) || !slices.Equal(full.Groups, []string{"playground"}) {
		t.Errorf("users %v, groups %v", full.Users, full.Groups)
	}
	if diff := cmp.Diff(full.compact(), compact); diff != "" {
		t.Errorf("the compact manifest differs in more than files and scripts:\n%s", diff)
	}
	for _, m := range members {
		if m.ModTime.Unix() != 1_700_000_000 || m.Uid != 0 || m.Gid != 0 {
			t.Errorf("%s has time %v, ids %d:%d", m.Name, m.ModTime, m.Uid, m.Gid)
		}
	}
}

// checkSums compares the full manifest with what is in the package: the same paths, the right checksums and size.
func checkSums(t *testing.T, m manifest, members []member) {
	t.Helper()
	var size int64
	files, folders := map[string]string{}, map[string]directory{}
	for _, f := range members {
		if f.Typeflag == tar.TypeDir {
			folders[strings.TrimSuffix(f.Name, "/")] = directory{f.Uname, f.Gname, fmt.Sprintf("%04o", f.Mode)}
			continue
		}
		sum := sha256.Sum256(f.data)
		files[f.Name] = "1$" + hex.EncodeToString(sum[:])
		size += int64(len(f.data))
	}
	if diff := cmp.Diff(files, m.Files); diff != "" {
		t.Errorf("files (-packed +manifest):\n%s", diff)
	}
	if diff := cmp.Diff(folders, m.Directories); diff != "" {
		t.Errorf("folders (-packed +manifest):\n%s", diff)
	}
	if size != m.FlatSize {
		t.Errorf("flatsize %d, packed %d", m.FlatSize, size)
	}
}

// A package is a function of its input: neither the time, the place nor the order of a folder shows.
func TestReproducible(t *testing.T) {
	var packages [2][]byte
	for i := range packages {
		stage := testStage(t)
		tool := filepath.Join(stage, prefix, "sbin/tool")
		if err := os.Chtimes(tool, time.Unix(int64(i)*1000, 0), time.Unix(int64(i)*1000, 0)); err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(strings.TrimSuffix(testList, "\n"), "\n")
		if i == 1 {
			slices.Reverse(lines)
			lines[0] += "\n"
		}
		name, err := pack(t, inRepository(t, stage, strings.Join(lines, "")), platform{"amd64", 15})
		if err != nil {
			t.Fatal(err)
		}
		if packages[i], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packages[0], packages[1]) {
		t.Error("the same input gave different packages")
	}
}

func TestStageAndListMustAgree(t *testing.T) {
	tool := filepath.Join(prefix, "sbin/tool")
	tests := map[string]func(stage string) error{
		"missing": func(stage string) error { return os.Remove(filepath.Join(stage, tool)) },
		"forgotten": func(stage string) error {
			return os.WriteFile(filepath.Join(stage, prefix, "sbin/new"), nil, 0o755)
		},
		"symbolic link": func(stage string) error {
			return errors.Join(os.Remove(filepath.Join(stage, tool)), os.Symlink("/bin/sh", filepath.Join(stage, tool)))
		},
		"set-uid":        func(stage string) error { return os.Chmod(filepath.Join(stage, tool), 0o755|os.ModeSetuid) },
		"world-writable": func(stage string) error { return os.Chmod(filepath.Join(stage, tool), 0o777) },
		"folder out of the stage": func(stage string) error {
			outside := filepath.Join(filepath.Dir(stage), "outside")
			return errors.Join(os.Rename(filepath.Join(stage, prefix, "sbin"), outside), os.Symlink(outside, filepath.Join(stage, prefix, "sbin")))
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			stage := testStage(t)
			if err := spoil(stage); err != nil {
				t.Fatal(err)
			}
			o := inRepository(t, stage, testList)
			if _, err := pack(t, o, platform{"amd64", 14}); err == nil {
				t.Error("a package was made")
			}
			if left, err := os.ReadDir(o.out); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

// The texts must tell what an administrator has to do, and in which file.
func TestMessages(t *testing.T) {
	text, err := os.ReadFile("../../port/pkg-message")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseMessages(string(text))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, m := range all {
		said[m.Type] += m.Message
	}
	if kinds := slices.Sorted(maps.Keys(said)); !slices.Equal(kinds, []string{"install", "remove", "upgrade"}) {
		t.Errorf("messages of types %v", kinds)
	}
	for _, want := range []string{"kern.racct.enable=1", "/boot/loader.conf", "shutdown -r", "sysrc playground_enable=YES",
		"securelevel_min", "devfs", "zfs create", "playground doctor", "playground user create"} {
		if !strings.Contains(said["install"], want) {
			t.Errorf("the install message does not tell of %q", want)
		}
	}
	for _, bad := range []string{"type: install", "[\nmessage: <<EOM\nx\nEOM\n]", "[\n{\ntype: install\nmessage: <<EOM\nx\n", "", "{ include: /etc/passwd }"} {
		if got, err := parseMessages(bad); err == nil {
			t.Errorf("%q was taken as %v", bad, got)
		}
	}
}
