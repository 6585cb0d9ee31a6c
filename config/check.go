package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"playground/fault"
	"playground/job"
	"playground/racct"
)

// A checker collects problems, so that one run of -t shows all of them.
type checker struct {
	lines    map[string]int // of the keys that the file sets
	problems []string
}

// refuse records that key's value is wrong and what would be right.
func (c *checker) refuse(key string, value any, format string, args ...any) {
	text := fmt.Sprintf("%s is %q: ", key, fmt.Sprint(value)) + fmt.Sprintf(format, args...)
	// A key that the file does not set has no line: its default conflicts with another key's value.
	if line, ok := c.lines[key]; ok {
		text = fmt.Sprintf("line %d: %s", line, text)
	}
	c.problems = append(c.problems, text)
}

// span refuses a duration outside [low, high], which are written as the file writes them.
func span(c *checker, key string, text, low, high duration) {
	v, err := text.value()
	if err != nil {
		c.refuse(key, text, "%v", err)
		return
	}
	// A limit that is itself wrong was told already and bounds nothing.
	if top, err := high.value(); err == nil && (v < low.must() || v > top) {
		c.refuse(key, text, "it must be between %s and %s", low, high)
	}
}

// between refuses a value outside [low, high].
func between[T cmp.Ordered](c *checker, key string, value, low, high T) {
	if value < low || value > high {
		c.refuse(key, value, "it must be between %v and %v", low, high)
	}
}

// unlimited is like between, but lets 0 through, which means no limit.
func unlimited[T ~int64](c *checker, key string, value, low, high T) {
	orZero(c, key, value, low, high, "no limit")
}

// orZero is like between, but lets 0 through, which means something of its own.
func orZero[T ~int64](c *checker, key string, value, low, high T, meaning string) {
	if value != 0 && (value < low || value > high) {
		c.refuse(key, value, "it must be 0 (%s) or between %v and %v", meaning, low, high)
	}
}

// oneOf refuses a word that is not listed.
func oneOf(c *checker, key, value string, words []string) {
	if !slices.Contains(words, value) {
		c.refuse(key, value, "it must be one of %s", strings.Join(words, ", "))
	}
}

// validate checks every value and builds the Config for goos; lines are the keys' lines, as far as known.
func (v raw) validate(goos string, lines map[string]int) (Config, error) {
	p, ok := platformOf(goos)
	if !ok {
		return Config{}, fault.New(fault.Unsupported, "%s has no isolation that the daemons can use", goos).
			WithHint("run them on FreeBSD or Linux")
	}
	c := checker{lines: lines}
	v.Host.check(&c)
	v.HTTP.check(&c, v.Jobs.FileBytes)
	v.Sandbox.check(&c, p)
	v.Jobs.check(&c)
	v.Resources.check(&c)
	v.Faculty.check(&c)
	v.Gateway.check(&c, v.HTTP)
	v.Work.check(&c, v.Host)
	v.Work.checkWorker(&c, v.Sandbox)
	oneOf(&c, "log.level", v.Log.Level, []string{"debug", "info", "warn", "error"})
	if len(c.problems) > 0 {
		return Config{}, fault.New(fault.Invalid, "%s", strings.Join(c.problems, "; ")).WithHint(sampleHint)
	}
	return v.build(p), nil
}

// sunPath is the longest socket path: FreeBSD's sun_path has 104 bytes with the closing NUL, Linux's 108.
const sunPath = 103

var (
	prefixForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)
	userForm   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	langForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$`)
)

func (v rawHost) check(c *checker) {
	if !prefixForm.MatchString(v.Prefix) {
		c.refuse("host.prefix", v.Prefix, "it must be 1 to 16 small letters and digits and begin with a letter")
	}
	absolute(c, "host.state_dir", v.StateDir)
	absolute(c, "host.run_dir", v.RunDir)
	absolute(c, "host.libexec_dir", v.LibexecDir)
	if v.StateDir == v.RunDir {
		c.refuse("host.run_dir", v.RunDir, "it must differ from host.state_dir")
	}
	if n := len(filepath.Join(v.RunDir, operatorSocket)); n > sunPath {
		c.refuse("host.run_dir", v.RunDir, "its sockets' paths have %d bytes and the kernel takes %d: choose a shorter folder", n, sunPath)
	}
	if !userForm.MatchString(v.DaemonUser) || v.DaemonUser == "root" {
		c.refuse("host.daemon_user", v.DaemonUser, "it must name an ordinary user, not root")
	}
	between(c, "host.securelevel_min", v.SecurelevelMin, -1, 3)
}

// absolute refuses a path that is not absolute and clean: these paths are joined, created and compared by root.
func absolute(c *checker, key, path string) {
	switch {
	case !filepath.IsAbs(path):
		c.refuse(key, path, "it must be an absolute path")
	case path == "/":
		c.refuse(key, path, "it must not be the root")
	case filepath.Clean(path) != path:
		c.refuse(key, path, "write it as %q", filepath.Clean(path))
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		c.refuse(key, path, "it must not hold control characters")
	}
}

func (v rawHTTP) check(c *checker, fileBytes Bytes) {
	if ip, err := address(v.Listen); err != nil {
		c.refuse("http.listen", v.Listen, "%v", err)
	} else if ip.Zone() != "" {
		c.refuse("http.listen", v.Listen, "it must not hold a zone")
	}
	if v.MetricsListen != "" {
		if ip, err := address(v.MetricsListen); err != nil {
			c.refuse("http.metrics_listen", v.MetricsListen, "%v", err)
		} else if !ip.IsLoopback() {
			c.refuse("http.metrics_listen", v.MetricsListen, "metrics have no login: it must be a loopback address such as 127.0.0.1:9787")
		}
	}
	for _, host := range v.AllowedHosts {
		if u, err := url.Parse("http://" + host); err != nil || u.Host != host || u.Hostname() == "" {
			c.refuse("http.allowed_hosts", host, "each must be a host name, with or without a port, and nothing else")
		}
	}
	for _, origin := range v.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.Scheme+"://"+u.Host != origin {
			c.refuse("http.allowed_origins", origin, "each must be http:// or https://, a host and perhaps a port, without a path")
		}
	}
	between(c, "http.body_bytes", v.BodyBytes, 64<<10, 512<<20)
	// A write sends its file in base64 within JSON; without room for it jobs.file_bytes would be a false promise.
	if need := (fileBytes+2)/3*4 + 64<<10; v.BodyBytes < need {
		c.refuse("http.body_bytes", v.BodyBytes, "a file of jobs.file_bytes needs at least %v in base64", need)
	}
	span(c, "http.session_idle", v.SessionIdle, "1m", "168h")
	between(c, "http.sessions_per_tenant", v.SessionsPerTenant, 1, 100_000)
}

// address reads "IP:PORT" or "localhost:PORT". Names are refused, since what they resolve to can change; so is an empty
// host, which would listen everywhere without saying so.
func address(s string) (netip.Addr, error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return netip.Addr{}, fmt.Errorf("it must be an address and a port, such as 127.0.0.1:8787")
	}
	host, port := s[:i], s[i+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return netip.Addr{}, fmt.Errorf("its port must be a number from 0 to 65535")
	}
	switch {
	case host == "":
		return netip.Addr{}, fmt.Errorf("write 0.0.0.0%s or [::]%s to listen everywhere", s, s)
	case host == "localhost":
		return netip.IPv6Loopback(), nil
	case strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"):
		host = host[1 : len(host)-1]
	case strings.Contains(host, ":"):
		return netip.Addr{}, fmt.Errorf("write an IPv6 address in brackets")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("its host must be an IP address or localhost")
	}
	return ip, nil
}

func (v rawJobs) check(c *checker) {
	between(c, "jobs.active_per_tenant", v.ActivePerTenant, 1, 10_000)
	between(c, "jobs.active_per_host", v.ActivePerHost, v.ActivePerTenant, 10_000)
	// A running job holds a handle, so fewer handles than active jobs could never be all active.
	between(c, "jobs.retained_per_tenant", v.RetainedPerTenant, v.ActivePerTenant, 100_000)
	between(c, "jobs.retained_per_host", v.RetainedPerHost, max(v.RetainedPerTenant, v.ActivePerHost), 100_000)
	between(c, "jobs.ring_bytes", v.RingBytes, 64<<10, 1<<30)
	between(c, "jobs.ring_chunks", v.RingChunks, 16, 1<<20)
	between(c, "jobs.page_bytes", v.PageBytes, 4<<10, min(v.RingBytes, 16<<20))
	// Linux takes at most 128 KiB in one argument of execve(2), and the command is one.
	between(c, "jobs.command_bytes", v.CommandBytes, 1<<10, 120<<10)
	between(c, "jobs.file_bytes", v.FileBytes, 1<<10, 256<<20)
	between(c, "jobs.text_bytes", v.TextBytes, 1<<10, 16<<20)
	span(c, "jobs.ttl", v.TTL, "1s", "720h")
	span(c, "jobs.exec_max", v.ExecMax, "1s", "1h")
	span(c, "jobs.exec_default", v.ExecDefault, "1s", v.ExecMax)
	span(c, "jobs.job_max", v.JobMax, "1s", "8760h")
	span(c, "jobs.wait_max", v.WaitMax, "1s", "2m")
	span(c, "jobs.term_grace", v.TermGrace, "0s", "30s")
	span(c, "jobs.proof_deadline", v.ProofDeadline, "1s", "10m")
	between(c, "jobs.warm", v.Warm, 0, 32)
}

func (v rawResources) check(c *checker) {
	unlimited(c, "resources.processes", v.Processes, 8, 1_000_000)
	unlimited(c, "resources.threads", v.Threads, 8, 1_000_000)
	unlimited(c, "resources.open_files", v.OpenFiles, 64, 10_000_000)
	unlimited(c, "resources.swap", v.Swap, 16<<20, 1<<50)
	unlimited(c, "resources.memory", v.Memory, 16<<20, 1<<50)
	unlimited(c, "resources.cpu_percent", v.CPUPercent, 1, 100_000)
	unlimited(c, "resources.pseudoterminals", v.Pseudoterminals, 1, 10_000)
	unlimited(c, "resources.write_per_second", v.WritePerSecond, 64<<10, 1<<50)
}

// build copies checked values; every conversion below is within the ranges above.
func (v raw) build(p platform) Config {
	return Config{
		Host: v.Host.build(),
		HTTP: HTTP{
			Listen:            v.HTTP.Listen,
			AllowedHosts:      list(v.HTTP.AllowedHosts),
			AllowedOrigins:    list(v.HTTP.AllowedOrigins),
			BodyBytes:         int64(v.HTTP.BodyBytes),
			SessionIdle:       v.HTTP.SessionIdle.must(),
			SessionsPerTenant: int(v.HTTP.SessionsPerTenant),
			MetricsListen:     v.HTTP.MetricsListen,
			Catalogue:         Catalogue(v.HTTP.Catalogue),
		},
		Sandbox:   v.Sandbox.build(p),
		Jobs:      v.Jobs.build(),
		Faculty:   v.Faculty.build(v.Host.StateDir),
		Gateway:   v.Gateway.build(),
		Work:      v.Work.build(),
		Log:       Log(v.Log),
		resources: v.Resources.build(),
	}
}

func (v rawHost) build() Host {
	return Host{
		Prefix: v.Prefix, StateDir: v.StateDir, RunDir: v.RunDir, LibexecDir: v.LibexecDir, DaemonUser: v.DaemonUser,
		SecurelevelMin: int(v.SecurelevelMin),
	}
}

// list makes an empty list and a missing one the same value.
func list(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}

func (v rawJobs) build() Jobs {
	return Jobs{
		Limits: job.Limits{
			ActivePerTenant:   int(v.ActivePerTenant),
			ActivePerHost:     int(v.ActivePerHost),
			RetainedPerTenant: int(v.RetainedPerTenant),
			RetainedPerHost:   int(v.RetainedPerHost),
			RingBytes:         int(v.RingBytes),
			RingChunks:        int(v.RingChunks),
			PageBytes:         int(v.PageBytes),
			CommandBytes:      int(v.CommandBytes),
			StdinBytes:        int(v.FileBytes), // a written file travels as standard input
			TTL:               v.TTL.must(),
			ExecDefault:       v.ExecDefault.must(),
			ExecMax:           v.ExecMax.must(),
			JobMax:            v.JobMax.must(),
			WaitMax:           v.WaitMax.must(),
		},
		FileBytes:     int(v.FileBytes),
		TextBytes:     int(v.TextBytes),
		TermGrace:     v.TermGrace.must(),
		ProofDeadline: v.ProofDeadline.must(),
		Warm:          int(v.Warm),
	}
}

func (v rawResources) build() racct.Limits {
	return racct.Limits{
		Processes:       v.Processes,
		Threads:         v.Threads,
		OpenFiles:       v.OpenFiles,
		SwapBytes:       int64(v.Swap),
		MemoryBytes:     int64(v.Memory),
		CPUPercent:      v.CPUPercent,
		Pseudoterminals: v.Pseudoterminals,
		WriteBytesPerS:  int64(v.WritePerSecond),
	}
}
