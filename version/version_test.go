package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"},
		{Key: "vcs.modified", Value: "true"},
	}
	tests := []struct {
		name   string
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"linked wins", "1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}, "1.2.3"},
		{"no information", "", nil, "devel"},
		{"module version", "", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "v0.1.0"},
		{"commit of a dirty tree", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs}, "devel-0123456789ab+dirty"},
		{"clean commit", "", &debug.BuildInfo{Settings: vcs[:1]}, "devel-0123456789ab"},
		{"short commit", "", &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}, "devel-abc"},
		{"nothing recorded", "", &debug.BuildInfo{}, "devel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := choose(tt.linked, tt.info); got != tt.want {
				t.Errorf("choose = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestString(t *testing.T) {
	if got := String(); got == "" || strings.ContainsAny(got, " \n") {
		t.Errorf("String() = %q, want one word", got)
	}
}
