package gateway_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/config"
	"playground/fault"
	"playground/gateway"
)

func entry(tenant, address, file string) string {
	return fmt.Sprintf(`{"tenant":%q,"address":%q,"token_file":%q}`, tenant, address, file)
}

func TestParse(t *testing.T) {
	ok := entry("alice", "127.0.0.1:9001", "/t/a")
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, entry(fmt.Sprintf("t-%d", i), fmt.Sprintf("127.0.%d.%d:1", i/250, i%250+1), fmt.Sprintf("/t/%d", i)))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	with := func(old, changed string) string { return "[" + strings.Replace(ok, old, changed, 1) + "]" }
	for _, tt := range []struct {
		name, text, want string // want: part of the error; "" = none
		workers          int
	}{
		{"one", "[" + ok + "]", "", 1},
		{"two", "[" + ok + "," + entry("bob", "[::1]:9001", "/t/b") + "]\n", "", 2},
		{"none", "[]", "", 0},
		{"most", many(1024), "", 1024},
		{"too many", many(1025), "1024 is the most", 0},
		{"empty file", "", "empty or cut off", 0},
		{"cut off", "[" + ok, "cut off", 0},
		{"not JSON", "[x]", "malformed JSON", 0},
		{"null", "null", "null", 0},
		{"object", ok, "list", 0},
		{"something after it", "[" + ok + "] []", "after the list", 0},
		{"null entry", "[null]", "must be an object", 0},
		{"list entry", "[[]]", "must be an object", 0},
		{"unknown member", with(`"tenant"`, `"extra":1,"tenant"`), `unknown member "extra"`, 0},
		{"other case", with(`"tenant"`, `"Tenant"`), `unknown member "Tenant"`, 0},
		{"url", with(`"tenant"`, `"url":"http://x","tenant"`), "unknown member", 0},
		{"member twice", with(`"tenant"`, `"tenant":"bob","tenant"`), "tenant is there twice", 0},
		{"no tenant", `[{"address":"127.0.0.1:1","token_file":"/t"}]`, "tenant is missing", 0},
		{"no address", `[{"tenant":"alice","token_file":"/t"}]`, "address is missing", 0},
		{"no token file", `[{"tenant":"alice","address":"127.0.0.1:1"}]`, "token_file is missing", 0},
		{"number", with(`"127.0.0.1:9001"`, "9001"), "must be a string", 0},
		{"object value", with(`"127.0.0.1:9001"`, "{}"), "must be a string", 0},
		{"bad tenant", with(`"alice"`, `"../x"`), "tenant", 0},
		{"digits only", with(`"alice"`, `"123"`), "tenant", 0},
		{"same tenant", "[" + ok + "," + entry("alice", "127.0.0.1:9002", "/t/b") + "]", "tenant alice is also in entry 1", 0},
		{"same address", "[" + ok + "," + entry("bob", "127.0.0.1:9001", "/t/b") + "]", "also in entry 1", 0},
		{"same token file", "[" + ok + "," + entry("bob", "127.0.0.1:9002", "/t/a") + "]", "also in entry 1", 0},
		{"name", with("127.0.0.1:", "localhost:"), "literal address", 0},
		{"no port", with(":9001", ""), "literal address", 0},
		{"empty port", with(":9001", ":"), "literal address", 0},
		{"named port", with(":9001", ":http"), "literal address", 0},
		{"port 0", with(":9001", ":0"), "must not be 0", 0},
		{"large port", with(":9001", ":65536"), "literal address", 0},
		{"port with zero", with(":9001", ":02280"), "write it as 127.0.0.1:2280", 0},
		{"port with sign", with(":9001", ":+9001"), "literal address", 0},
		{"address with zero", with("127.0.0.1:", "127.0.0.01:"), "literal address", 0},
		{"octal address", with("127.0.0.1:", "0177.0.0.1:"), "literal address", 0},
		{"short address", with("127.0.0.1:", "127.1:"), "literal address", 0},
		{"number address", with("127.0.0.1:", "2130706433:"), "literal address", 0},
		{"all addresses", with("127.0.0.1:", "0.0.0.0:"), "loopback", 0},
		{"another host", with("127.0.0.1:", "192.0.2.1:"), "loopback", 0},
		{"another host v6", with("127.0.0.1:", "[2001:db8::1]:"), "loopback", 0},
		{"zone", with("127.0.0.1:", "[::1%lo]:"), "zone", 0},
		{"link local", with("127.0.0.1:", "[fe80::1%lo0]:"), "zone", 0},
		{"v4 in v6", with("127.0.0.1:", "[::ffff:127.0.0.1]:"), "write it as 127.0.0.1:9001", 0},
		{"long v6", with("127.0.0.1:", "[0:0:0:0:0:0:0:1]:"), "write it as [::1]:9001", 0},
		{"user", with("127.0.0.1:", "x@127.0.0.1:"), "literal address", 0},
		{"scheme", with("127.0.0.1:", "http://127.0.0.1:"), "literal address", 0},
		{"space", with("127.0.0.1:", " 127.0.0.1:"), "literal address", 0},
		{"relative file", with("/t/a", "t/a"), "absolute path", 0},
		{"unclean file", with("/t/a", "/t/../a"), "absolute path", 0},
		{"too large", "[" + strings.Repeat(" ", 1<<20) + "]", "larger than", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := gateway.Parse([]byte(tt.text))
			if tt.want == "" {
				if err != nil || len(m.Workers()) != tt.workers {
					t.Fatalf("%d workers, %v", len(m.Workers()), err)
				}
				return
			}
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	dir := t.TempDir()
	good := strings.Repeat("a", 31) + "1"
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		write(t, path, text, mode)
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("target", good, 0o600), link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, token, want string }{
		{"good", file("good", good+"\n", 0o600), ""},
		{"read only", file("ro", good, 0o400), ""},
		{"longest", file("longest", strings.Repeat("x", 1023)+"=", 0o600), ""},
		{"short", file("short", good[1:], 0o600), "32 to 1024 characters, this one 31"},
		{"long", file("long", strings.Repeat("x", 1025), 0o600), "this one 1025"},
		{"space", file("space", good+" "+good, 0o600), "letters, digits"},
		{"line in it", file("line", good+"\n"+good, 0o600), "letters, digits"},
		{"header", file("header", good+"\r\nX: y", 0o600), "letters, digits"},
		{"padding inside", file("padding", good+"=a", 0o600), "letters, digits"},
		{"only padding", file("equals", strings.Repeat("=", 40), 0o600), "letters, digits"},
		{"not ASCII", file("umlaut", good+"ä", 0o600), "letters, digits"},
		{"empty", file("empty", "\n", 0o600), "this one 0"},
		{"open to group", file("group", good, 0o640), "0640"},
		{"open to others", file("others", good, 0o604), "0604"},
		{"link", link, "symbolic link"},
		{"folder", dir, "not a regular file"},
		{"missing", filepath.Join(dir, "missing"), "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := file("manifest", "["+entry("alice", "127.0.0.1:1", tt.token)+"]", 0o600)
			m, err := gateway.Load(path, config.PrivateFile)
			switch {
			case tt.want == "" && (err != nil || len(m.Workers()) != 1):
				t.Errorf("got %v", err)
			case tt.want != "" && (!errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q in it", err, tt.want)
			case err != nil && strings.Contains(err.Error(), good):
				t.Errorf("the error holds the token: %v", err)
			case err == nil && strings.Contains(fmt.Sprintf("%v %+v %#v", m, m.Workers(), m.Workers()), good[:31]):
				t.Error("a format verb shows the token")
			}
		})
	}
	twice := "[" + entry("alice", "127.0.0.1:1", file("a", good, 0o600)) + "," + entry("bob", "127.0.0.1:2", file("b", good, 0o600)) + "]"
	if _, err := gateway.Load(file("manifest", twice, 0o600), config.PrivateFile); err == nil || !strings.Contains(err.Error(), "same token") {
		t.Errorf("one token for two workers: %v", err)
	}
	for _, mode := range []os.FileMode{0o640, 0o602, 0o644} {
		if _, err := gateway.Load(file("manifest", "[]", mode), config.PrivateFile); !errors.Is(err, fault.Invalid) {
			t.Errorf("manifest with mode %#o: %v", mode, err)
		}
	}
	if err := os.Symlink(file("manifest", "[]", 0o600), filepath.Join(dir, "mlink")); err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.Load(filepath.Join(dir, "mlink"), config.PrivateFile); !errors.Is(err, fault.Invalid) {
		t.Errorf("a manifest by a symbolic link: %v", err)
	}
}

func TestRefuseOwn(t *testing.T) {
	m, err := gateway.Parse([]byte("[" + entry("alice", "127.0.0.1:8787", "/t/a") + "," + entry("bob", "[::1]:9787", "/t/b") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	for own, refused := range map[string]bool{
		"127.0.0.1:8787": true, "0.0.0.0:8787": true, "[::]:9787": true, "localhost:9787": true, "[::1]:9787": true, "[::ffff:127.0.0.1]:8787": true,
		"": false, "127.0.0.1:9787": false, "127.0.0.1:1": false, "192.0.2.1:8787": false, "[::1]:8787": false,
	} {
		if err := gateway.RefuseOwn(m, "127.0.0.1:1", own); (err != nil) != refused {
			t.Errorf("%s: %v", own, err)
		}
	}
}

// Whatever a manifest says, only distinct canonical loopback addresses of distinct tenants come out.
func FuzzParse(f *testing.F) {
	f.Add("[" + entry("alice", "127.0.0.1:9001", "/t/a") + "," + entry("bob", "[::1]:2", "/t/b") + "]")
	f.Add(`[{"tenant":"a","address":"127.0.0.1:0","token_file":"/"}]`)
	f.Add(`[{"tenant":"a","tenant":"b"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := gateway.Parse([]byte(text))
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%T", err)
			}
			return
		}
		seen := map[string]bool{}
		for _, w := range m.Workers() {
			if !w.Address.Addr().IsLoopback() || w.Address.Port() == 0 || w.Address.Addr().Zone() != "" || w.Address.Addr().Is4In6() ||
				!strings.Contains(text, w.Tenant) || !filepath.IsAbs(w.TokenFile) || len(m.Workers()) > 1024 {
				t.Errorf("%v came through", w)
			}
			for _, key := range []string{w.Tenant, w.Address.String(), w.TokenFile} {
				if seen[key] {
					t.Errorf("%s is there twice", key)
				}
				seen[key] = true
			}
		}
	})
}
