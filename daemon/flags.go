package daemon

import (
	"flag"
	"runtime"

	"playground/version"
)

// DefaultConfig is where the package installs the configuration.
const DefaultConfig = "/usr/local/etc/playground/playground.toml"

// Options are the flags that every daemon has.
type Options struct {
	Config  string // -c
	Test    bool   // -t
	Version bool   // -version
}

// Flags adds every daemon's flags to fs. The values hold after fs was parsed.
func Flags(fs *flag.FlagSet) *Options {
	o := new(Options)
	fs.StringVar(&o.Config, "c", DefaultConfig, "read the configuration from `file`")
	fs.BoolVar(&o.Test, "t", false, "check the configuration and exit")
	fs.BoolVar(&o.Version, "version", false, "print the version and exit")
	return o
}

// Banner is the line that -version prints.
func Banner(program string) string {
	return program + " " + version.String() + " " + runtime.GOOS + "/" + runtime.GOARCH + " " + runtime.Version()
}
