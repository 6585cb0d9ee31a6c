package config

import (
	"math"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// Work is the work loop: for whom it runs, and what it thinks with.
type Work struct {
	Operator  string // DID of whoever owns this host: tier operator, in process unless a record says otherwise
	Provider  string // "", "anthropic", "openai", "echo" or "scripted"; "" = starts are refused
	Model     string
	BaseURL   string // empty = the provider's own
	KeyFile   string // for SecretFile; empty = no key
	Script    string // provider scripted: what the model "says"
	MaxTokens int    // of one answer of the model
	Prices    map[string]Price
	Capacity  int           // workers at once; 0 = by the host's memory
	StopGrace time.Duration // between a stop and the end of a worker that did not reach its next step
	DataDir   string        // data plane, empty = none
	Worker    Worker
	HostTools bool // the operator's own runs may use bash and files of this host
}

// A Price is what a model costs, in USD for a million tokens.
type Price struct{ Input, Output float64 }

// The providers.
const (
	ProviderAnthropic = "anthropic"
	ProviderOpenAI    = "openai"
	ProviderEcho      = "echo"
	ProviderScripted  = "scripted"
)

// MaxWorkers is how many work-loop workers a host runs at most; playground-reaperd has the same bound.
const MaxWorkers = 64

type rawWork struct {
	Operator  string              `toml:"operator"`
	Provider  string              `toml:"provider"`
	Model     string              `toml:"model"`
	BaseURL   string              `toml:"base_url"`
	KeyFile   string              `toml:"key_file"`
	Script    string              `toml:"script"`
	MaxTokens int64               `toml:"max_tokens"`
	Prices    map[string]rawPrice `toml:"prices"`
	Capacity  int64               `toml:"capacity"`
	StopGrace duration            `toml:"stop_grace"`
	DataDir   string              `toml:"data_dir"`
	HostTools bool                `toml:"host_tools"`

	WorkerUIDBase int64    `toml:"worker_uid_base"`
	WorkerMemory  Bytes    `toml:"worker_memory"`
	WorkerCPU     duration `toml:"worker_cpu"`
}

type rawPrice struct {
	Input  float64 `toml:"input"`
	Output float64 `toml:"output"`
}

func workDefaults() rawWork {
	return rawWork{Operator: "did:sync:user:operator", MaxTokens: 8192, StopGrace: "30s",
		WorkerUIDBase: 990_000, WorkerMemory: 512 << 20, WorkerCPU: "1h"}
}

var (
	// Kernel identities (did:sync:system:) cannot be a person.
	operatorForm = regexp.MustCompile(`^did:(sync:user:[a-z0-9][a-z0-9._-]{0,63}|key:[A-Za-z0-9]{1,200}|web:[A-Za-z0-9.:%_-]{1,200})$`)
	modelForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)
)

func (v rawWork) check(c *checker, host rawHost) {
	if !operatorForm.MatchString(v.Operator) {
		c.refuse("work.operator", v.Operator, "it must be a DID such as did:sync:user:operator")
	}
	oneOf(c, "work.provider", v.Provider, []string{"", ProviderAnthropic, ProviderOpenAI, ProviderEcho, ProviderScripted})
	v.checkProvider(c)
	between(c, "work.max_tokens", v.MaxTokens, 16, 1_000_000)
	for model, price := range v.Prices {
		key := "work.prices." + model
		if !modelForm.MatchString(model) {
			c.refuse("work.prices", model, "each key must be a model's name")
		}
		for _, usd := range []float64{price.Input, price.Output} {
			if math.IsNaN(usd) || usd < 0 || usd > 100_000 {
				c.refuse(key, usd, "input and output must be USD for a million tokens, between 0 and 100000")
			}
		}
	}
	orZero(c, "work.capacity", v.Capacity, 1, MaxWorkers, "as memory allows")
	span(c, "work.stop_grace", v.StopGrace, "100ms", "10m")
	if v.DataDir != "" {
		absolute(c, "work.data_dir", v.DataDir)
		for _, ours := range []string{host.RunDir, host.StateDir} {
			if within(ours, v.DataDir) || within(v.DataDir, ours) {
				c.refuse("work.data_dir", v.DataDir, "it must lie apart from %s: runs may read and write it", ours)
			}
		}
	}
}

// within reports whether path is dir or below it; both are clean.
func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// checkProvider checks what belongs to the chosen provider, so that a start does not fail with what a file could have told.
func (v rawWork) checkProvider(c *checker) {
	remote := v.Provider == ProviderAnthropic || v.Provider == ProviderOpenAI
	switch {
	case v.Model == "" && remote:
		c.refuse("work.model", v.Model, "provider %s needs the name of a model", v.Provider)
	case v.Model != "" && !modelForm.MatchString(v.Model):
		c.refuse("work.model", v.Model, "it must be a model's name")
	}
	switch {
	case v.KeyFile == "" && remote && v.BaseURL == "":
		c.refuse("work.key_file", v.KeyFile, "provider %s needs a file of mode 0600 that holds the key", v.Provider)
	case v.KeyFile != "":
		absolute(c, "work.key_file", v.KeyFile)
	}
	if v.BaseURL != "" {
		if problem := badBase(v.BaseURL, v.KeyFile != ""); problem != "" {
			c.refuse("work.base_url", v.BaseURL, "%s", problem)
		}
	}
	switch {
	case v.Script == "" && v.Provider == ProviderScripted:
		c.refuse("work.script", v.Script, "provider scripted needs a file of steps")
	case v.Script != "":
		absolute(c, "work.script", v.Script)
	}
}

// badBase says what is wrong with a provider's address, or "".
func badBase(base string, keyed bool) string {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.ContainsFunc(base, unicode.IsSpace) {
		return "it must be http:// or https://, a host and perhaps a path, such as https://models.example.org/v1"
	}
	ip := net.ParseIP(u.Hostname())
	if loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme == "http" && keyed && !loopback {
		return "the key would cross the network unprotected: use https://"
	}
	return ""
}

func (v rawWork) build() Work {
	w := Work{
		Operator: v.Operator, Provider: v.Provider, Model: v.Model, BaseURL: v.BaseURL, KeyFile: v.KeyFile, Script: v.Script,
		MaxTokens: int(v.MaxTokens), Capacity: int(v.Capacity), StopGrace: v.StopGrace.must(), DataDir: v.DataDir, HostTools: v.HostTools,
		Worker: v.buildWorker(),
	}
	for model, price := range v.Prices {
		if w.Prices == nil {
			w.Prices = make(map[string]Price, len(v.Prices))
		}
		w.Prices[model] = Price(price)
	}
	return w
}

// Records is the SQLite file of the record log.
func (c Config) Records() string { return filepath.Join(c.TransportDir(), "records.db") }

// RecordAudit is the append-only file beside the record log.
func (c Config) RecordAudit() string { return filepath.Join(c.TransportDir(), "records.audit") }

// InstanceKey is the file of the key that signs what the kernel writes.
func (c Config) InstanceKey() string { return filepath.Join(c.TransportDir(), "instance.key") }

// Workspace is the folder that the operator's host tools work in when a run names none.
func (c Config) Workspace() string { return filepath.Join(c.TransportDir(), "workspace") }
