package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePlist(t *testing.T) {
	got, err := parsePlist([]byte("sbin/b\n@comment words (a,b,c)\n\n@(root,operator,0550) sbin/a\n@(,,0555) etc/rc.d/a\n" +
		"@sample(root,playground,0640) etc/a/a.toml.sample\n@sample etc/b.conf.sample\n@dir(root,wheel,0711) /var/db/a\n@dir libexec/a\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{Path: "/usr/local/etc/a/a.toml.sample", Sample: true, Owner: "root", Group: "playground", Mode: 0o640},
		{Path: "/usr/local/etc/b.conf.sample", Sample: true, Owner: "root", Group: "wheel"},
		{Path: "/usr/local/etc/rc.d/a", Owner: "root", Group: "wheel", Mode: 0o555},
		{Path: "/usr/local/libexec/a", Dir: true, Owner: "root", Group: "wheel", Mode: 0o755},
		{Path: "/usr/local/sbin/a", Owner: "root", Group: "operator", Mode: 0o550},
		{Path: "/usr/local/sbin/b", Owner: "root", Group: "wheel"},
		{Path: "/var/db/a", Dir: true, Owner: "root", Group: "wheel", Mode: 0o711},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestParsePlistRefuses(t *testing.T) {
	tests := map[string]string{
		"up":               "../../etc/passwd",
		"up inside":        "sbin/../../../etc/passwd",
		"dot":              "sbin/./a",
		"double slash":     "sbin//a",
		"slash at the end": "sbin/",
		"base system":      "/etc/rc.d/playground",
		"base folder":      "@dir /usr/sbin",
		"root":             "@dir /",
		"prefix itself":    "@dir /usr/local",
		"state folders":    "@dir /var/db",
		"a file in var":    "/var/db/playground/a",
		"volatile":         "@dir(root,wheel,0755) /var/run/playground",
		"placeholder":      "%%ETCDIR%%/a",
		"shell":            "@exec rm -rf /",
		"post-install":     "@postexec reboot",
		"stateful mode":    "@mode 0777",
		"stateful owner":   "@owner nobody",
		"no path":          "@dir",
		"empty keyword":    "@ sbin/a",
		"two words":        "sbin/a sbin/b",
		"space at the end": "sbin/a ",
		"tab":              "sbin/a\t",
		"carriage return":  "sbin/a\r",
		"quote":            "sbin/a'b",
		"dollar":           "sbin/$HOME",
		"not ascii":        "sbin/ä",
		"nul":              "sbin/a\x00b",
		"set-uid":          "@(root,wheel,4555) sbin/a",
		"set-gid folder":   "@dir(root,wheel,2755) /var/db/a",
		"sticky":           "@dir(root,wheel,1777) /var/db/a",
		"world-writable":   "@(root,wheel,0666) sbin/a",
		"mode 0":           "@(root,wheel,0000) sbin/a",
		"mode in words":    "@(root,wheel,u=rwx) sbin/a",
		"two attributes":   "@(root,wheel) sbin/a",
		"flags":            "@(root,wheel,0555,schg) sbin/a",
		"owner with id":    "@(0,wheel,0555) sbin/a",
		"owner with shell": "@(root;id,wheel,0555) sbin/a",
		"not a sample":     "@sample etc/a.conf",
		"sample of none":   "@sample etc/.sample",
		"twice":            "sbin/a\nsbin/a",
		"twice, absolute":  "sbin/a\n/usr/local/sbin/a",
		"below a file":     "sbin/a\nsbin/a/b",
		"sample and file":  "@sample etc/a.sample\netc/a",
		"too long":         strings.Repeat("a", maxPath+1),
		"too much":         strings.Repeat("\n", maxPlist+1),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if entries, err := parsePlist([]byte(text)); err == nil {
				t.Errorf("%q was taken as %+v", text, entries)
			}
		})
	}
}

// Whatever is taken must be safe by itself: a path below the allowed folders, without tricks, a mode without tricks.
func FuzzParsePlist(f *testing.F) {
	if own, err := os.ReadFile("../../pkg-plist"); err == nil {
		f.Add(own)
	}
	f.Add([]byte("@(root,wheel,0555) sbin/a\n@sample etc/a.sample\n@dir /var/db/a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parsePlist(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, e := range entries {
			allowed := strings.HasPrefix(e.Path, "/usr/local/") || strings.HasPrefix(e.Path, "/var/")
			if !allowed || seen[e.Path] || strings.Contains(e.Path+"/", "/../") || strings.Contains(e.Path+"/", "/./") ||
				strings.ContainsAny(e.Path, " '\"$`\\;\n\r\t\x00%*?[") {
				t.Errorf("unsafe path %q", e.Path)
			}
			if e.Mode&^0o775 != 0 || e.Dir && e.Mode == 0 {
				t.Errorf("%q has mode %o", e.Path, e.Mode)
			}
			seen[e.Path] = true
		}
	})
}
