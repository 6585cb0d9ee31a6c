// Package version says which build this program is, for -version, logs and the MCP handshake.
package version

import "runtime/debug"

// version is set at link time: -ldflags "-X playground/version.version=1.2.3". It is a variable only because the linker
// can set nothing else.
var version string

// String returns the release's number, or what the Go toolchain recorded about the build, or "devel". It is never empty
// and holds no space.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = nil
	}
	return choose(version, info)
}

// choose prefers the linker's word, then the module version, then the commit; a dirty tree is always told.
func choose(linked string, info *debug.BuildInfo) string {
	if linked != "" {
		return linked
	}
	if info == nil {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + dirty
}
