package launch

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

func TestIdentity(t *testing.T) {
	tests := []struct {
		name, uid, gid string
		groups         []string
		want           []int
		kind           fault.Kind
	}{
		{"alone", "901", "901", nil, []int{901}, ""},
		// The first element is not a supplementary group: it must be the user's own.
		{"first is its own", "901", "901", []string{"5", "901", "7"}, []int{901, 5, 7}, ""},
		{"each once", "901", "901", []string{"5", "5", "901"}, []int{901, 5}, ""},
		{"root", "0", "901", nil, nil, fault.Denied},
		{"root's group", "901", "0", nil, nil, fault.Denied},
		{"member of root's group", "901", "901", []string{"0"}, nil, fault.Denied},
		{"unchanged", "-1", "901", nil, nil, fault.Denied},
		{"no number", "x", "901", nil, nil, fault.Internal},
		{"no group number", "901", "x", nil, nil, fault.Internal},
		{"no supplementary number", "901", "901", []string{"x"}, nil, fault.Internal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			who, err := identity("playground", tt.uid, tt.gid, tt.groups)
			if tt.kind != "" {
				if fault.KindOf(err) != tt.kind {
					t.Errorf("error %v, want %s", err, tt.kind)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, who.Groups); diff != "" || who.UID != 901 || who.GID != 901 {
				t.Errorf("%+v, groups (-want +got):\n%s", who, diff)
			}
		})
	}
}

func TestLookup(t *testing.T) {
	if _, err := Lookup("no-such-user"); !errors.Is(err, fault.NotFound) || !strings.Contains(fault.HintOf(err), "pw useradd no-such-user") {
		t.Errorf("unknown user: %v, hint %q", err, fault.HintOf(err))
	}
	if _, err := Lookup("root"); !errors.Is(err, fault.Denied) {
		t.Errorf("root: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	have := map[string]string{"NOTIFY_SOCKET": "/n", "GOMEMLIMIT": "1GiB", "LD_PRELOAD": "x", "SECRET": "y", "LISTEN_FDS": "9", "PATH": "/evil"}
	lookup := func(name string) (string, bool) { value, ok := have[name]; return value, ok }
	s := Slots{count: 2, names: []string{"mcp", "operator"}}
	want := []string{
		"PATH=/sbin:/bin:/usr/sbin:/usr/bin", "HOME=/", "USER=playground", "LOGNAME=playground", "NOTIFY_SOCKET=/n", "GOMEMLIMIT=1GiB",
		"LISTEN_PID=42", "LISTEN_FDS=2", "LISTEN_FDNAMES=mcp:operator",
	}
	if diff := cmp.Diff(want, s.environment(Identity{Name: "playground"}, 42, lookup)); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	none := new(Slots).environment(Identity{Name: "playground"}, 42, lookup)
	if slices.ContainsFunc(none, func(v string) bool { return strings.HasPrefix(v, "LISTEN_") }) {
		t.Errorf("without sockets: %v", none)
	}
}

func TestAddRefuses(t *testing.T) {
	full := &Slots{count: 1, names: []string{"mcp"}}
	if err := full.Add("more", os.Stdin); err == nil {
		t.Error("a socket without a reserved descriptor passed")
	}
	for _, name := range []string{"", "a:b", "a\x00"} {
		if err := (&Slots{count: 1}).Add(name, os.Stdin); err == nil {
			t.Errorf("name %q passed", name)
		}
	}
}
