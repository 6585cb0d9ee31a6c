package jail

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

func i32(v int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(v)) }

func z(s string) []byte { return append([]byte(s), 0) }

// safe is what every tenant's jail must have, in the order of the vector, without the network.
func safe(name, path string) [][]byte {
	return [][]byte{
		z("name"), z(name), z("path"), z(path), z("host.hostname"), z(name), z("persist"), nil, z("children.max"), i32(0),
		z("enforce_statfs"), i32(2), z("securelevel"), i32(3), z("devfs_ruleset"), i32(0),
	}
}

func abilities() [][]byte {
	var v [][]byte
	for _, name := range []string{
		"allow.noset_hostname", "allow.noraw_sockets", "allow.nochflags", "allow.nomount", "allow.noquotas", "allow.nosocket_af",
		"allow.nomlock", "allow.noread_msgbuf", "allow.nosysvipc", "allow.noreserved_ports", "allow.nounprivileged_proc_debug",
	} {
		v = append(v, z(name), nil)
	}
	for _, name := range []string{"sysvmsg", "sysvsem", "sysvshm"} {
		v = append(v, z(name), i32(0))
	}
	return v
}

func everything(string) (bool, error) { return true, nil }

func TestTenantJailVector(t *testing.T) {
	for _, c := range []struct {
		name    string
		network Network
		address netip.Addr
		want    [][]byte
	}{
		{"none", NetworkNone, netip.Addr{}, [][]byte{z("ip4"), i32(0), z("ip6"), i32(0)}},
		{"inherit", NetworkInherit, netip.Addr{}, [][]byte{z("ip4"), i32(2), z("ip6"), i32(2)}},
		{"address 4", NetworkAddress, netip.MustParseAddr("127.80.1.7"), [][]byte{
			z("ip4"), i32(1), z("ip4.addr"), {0x7f, 0x50, 0x01, 0x07}, z("ip6"), i32(0),
		}},
		{"address 6", NetworkAddress, netip.MustParseAddr("fd00::5"), [][]byte{
			z("ip4"), i32(0), z("ip6"), i32(1), z("ip6.addr"), {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5},
		}},
		{"vnet", NetworkVNET, netip.Addr{}, [][]byte{z("vnet"), i32(1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			params, err := tenantJail{name: "pg-a7", path: "/var/db/pg/root", network: c.network, address: c.address}.params()
			if err != nil {
				t.Fatal(err)
			}
			pairs, err := known(params, everything)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Concat(safe("pg-a7", "/var/db/pg/root"), c.want, abilities())
			if diff := cmp.Diff(want, vector(pairs)); diff != "" {
				t.Errorf("vector (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the network, a vector grants nothing, names no number and can be built by the kernel.
func TestVectorsGrantNothing(t *testing.T) {
	leaf, err := LeafSpec{Parent: "pg-a7", Name: "job1", Root: "/r"}.params()
	if err != nil {
		t.Fatal(err)
	}
	all := [][]param{leaf}
	for _, n := range []Network{NetworkNone, NetworkInherit, NetworkVNET} {
		p, err := tenantJail{name: "pg-a7", path: "/r", network: n}.params()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for _, params := range all {
		seen := make(map[string]bool)
		size := 0
		for _, p := range params {
			if p.name == "jid" || strings.HasPrefix(p.name, "exec.") || seen[p.name] {
				t.Errorf("parameter %q", p.name)
			}
			if strings.HasPrefix(p.name, "allow.") && !strings.HasPrefix(p.name, "allow.no") {
				t.Errorf("parameter %q grants", p.name)
			}
			seen[p.name] = true
			size += len(p.name) + 1 + len(p.value)
		}
		if !seen["persist"] || size > 64<<10 {
			t.Errorf("persist %v, %d bytes", seen["persist"], size)
		}
	}
}

func TestLeafVector(t *testing.T) {
	params, err := LeafSpec{Parent: "pg-a7", Name: "01JABC", Root: "/var/db/pg/root"}.params()
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := known(params, everything)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{
		z("name"), z("pg-a7.01JABC"), z("path"), z("/var/db/pg/root"), z("host.hostname"), z("pg-a7"), z("persist"), nil,
		z("enforce_statfs"), i32(2), z("ip4"), i32(2), z("ip6"), i32(2),
	}
	if diff := cmp.Diff(want, vector(pairs)); diff != "" {
		t.Errorf("vector (-want +got):\n%s", diff)
	}
}

func TestBadNamesAndPaths(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, name := range []string{"", "12", "0", "a.b", "a:b", "a/b", "a=b", "a,b", "a b", "a\x00", "-a", "_a", ".", "a\n", "é", long} {
		if _, err := (tenantJail{name: name, path: "/r", network: NetworkNone}).params(); !errors.Is(err, fault.Invalid) {
			t.Errorf("tenant name %q: %v", name, err)
		}
		if _, err := (LeafSpec{Parent: "pg-a", Name: name, Root: "/r"}).params(); !errors.Is(err, fault.Invalid) {
			t.Errorf("leaf name %q: %v", name, err)
		}
		if _, err := (LeafSpec{Parent: name, Name: "x", Root: "/r"}).params(); !errors.Is(err, fault.Invalid) {
			t.Errorf("parent name %q: %v", name, err)
		}
	}
	half := strings.Repeat("a", 200)
	if _, err := (LeafSpec{Parent: half, Name: half, Root: "/r"}).params(); !errors.Is(err, fault.Invalid) {
		t.Errorf("full name of 401 bytes: %v", err)
	}
	for _, path := range []string{"", "r", "./r", "/r\x00x", "/" + strings.Repeat("a", 1023)} {
		if _, err := (tenantJail{name: "pg-a", path: path, network: NetworkNone}).params(); !errors.Is(err, fault.Invalid) {
			t.Errorf("path %.20q: %v", path, err)
		}
	}
	if _, err := (LeafSpec{Parent: "pg-a", Name: "x", Root: "/r", Hostname: "a\x00b"}).params(); !errors.Is(err, fault.Invalid) {
		t.Errorf("hostname: %v", err)
	}
	for network, address := range map[Network]netip.Addr{
		NetworkNone: netip.MustParseAddr("127.0.0.2"), NetworkAddress: {}, NetworkHost: {}, "": {},
	} {
		if _, err := networkPairs(network, address); err == nil {
			t.Errorf("network %q with address %v is accepted", network, address)
		}
	}
}

func TestOptionalParameters(t *testing.T) {
	params, err := tenantJail{name: "pg-a", path: "/r", network: NetworkNone}.params()
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	pairs, err := known(params, func(name string) (bool, error) {
		asked = append(asked, positive(name))
		return !strings.HasPrefix(name, "sysv"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(pairs, func(p pair) bool { return strings.HasPrefix(p.name, "sysv") }); i >= 0 {
		t.Errorf("%q is named to a kernel that does not know it", pairs[i].name)
	}
	if !slices.Contains(asked, "allow.chflags") || slices.Contains(asked, "ip4") || slices.Contains(asked, "persist") {
		t.Errorf("asked for %q", asked)
	}
	// An error is never "not known": that would leave something open.
	if _, err := known(params, func(string) (bool, error) { return false, syscall.EIO }); !errors.Is(err, syscall.EIO) {
		t.Errorf("error of the kernel: %v", err)
	}
}

func TestKernelErrorKeepsBoth(t *testing.T) {
	err := error(&kernelError{act: "create jail", name: "pg-a", errno: syscall.EINVAL, message: "unknown parameter: x"})
	if !errors.Is(err, syscall.EINVAL) || err.Error() != `cannot create jail "pg-a": invalid argument (unknown parameter: x)` {
		t.Errorf("%v", err)
	}
	err = &kernelError{act: "create jail", name: "pg-a", errno: syscall.EEXIST}
	if err.Error() != `cannot create jail "pg-a": file exists` {
		t.Errorf("%v", err)
	}
}

func TestVectorDoesNotAliasNames(t *testing.T) {
	v := vector([]pair{stringPair("name", "x"), flagPair("persist")})
	if len(v) != 4 || v[3] != nil || !bytes.Equal(v[0], []byte("name\x00")) || !bytes.Equal(v[1], []byte("x\x00")) {
		t.Errorf("%q", v)
	}
	if cString([]byte("ab\x00cd")) != "ab" || cString([]byte("ab")) != "ab" || cString(nil) != "" {
		t.Error("cString")
	}
}
