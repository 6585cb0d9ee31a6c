package jail

import (
	"os"
	"path/filepath"
	"testing"
)

// What a tenant does to its own /etc or home must not keep it out of its sandbox.
func TestTenantsOwnFoldersKeepNobodyOut(t *testing.T) {
	if _, err := os.Stat("/etc/resolv.conf"); err != nil {
		t.Skip("this host has no resolv.conf to give")
	}
	for name, prepare := range map[string]func(root string) error{
		"no etc":     func(string) error { return nil },
		"etc a file": func(root string) error { return os.WriteFile(filepath.Join(root, "etc"), nil, 0o600) },
		"etc a link": func(root string) error { return os.Symlink("/nowhere", filepath.Join(root, "etc")) },
		"a folder there": func(root string) error {
			return os.MkdirAll(filepath.Join(root, "etc/resolv.conf"), 0o755)
		},
	} {
		root := t.TempDir()
		if err := prepare(root); err != nil {
			t.Fatal(err)
		}
		if err := resolver(NetworkInherit, root); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := resolver(NetworkNone, root); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "etc/resolv.conf")); err == nil {
		t.Error("a sandbox without a network got the host's resolvers")
	}
	if err := resolver(NetworkVNET, root); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(root, "etc/resolv.conf")); err != nil || len(data) == 0 {
		t.Errorf("%q, %v", data, err)
	}
}
