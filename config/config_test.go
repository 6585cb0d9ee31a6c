package config

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/jail"
	"playground/job"
	"playground/preflight"
	"playground/racct"
)

// equal compares Configs with their unexported fields.
func equal(t *testing.T, want, got Config) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Config{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("config differs (-want +got):\n%s", diff)
	}
}

func TestDefault(t *testing.T) {
	c := Default("linux")
	want := job.Limits{
		ActivePerTenant: 8, ActivePerHost: 32, RetainedPerTenant: 8, RetainedPerHost: 64,
		RingBytes: 4 << 20, RingChunks: 1024, PageBytes: 256 << 10, CommandBytes: 64 << 10, StdinBytes: 3 << 20,
		TTL: time.Hour, ExecDefault: 45 * time.Second, ExecMax: 280 * time.Second, JobMax: 24 * time.Hour, WaitMax: 25 * time.Second,
	}
	if diff := cmp.Diff(want, c.JobLimits()); diff != "" {
		t.Errorf("JobLimits (-want +got):\n%s", diff)
	}
	resources := racct.Limits{
		Processes: 256, Threads: 2048, OpenFiles: 16384, SwapBytes: 3 << 30, MemoryBytes: 2560 << 20, CPUPercent: 200,
		Pseudoterminals: 16, WriteBytesPerS: 100 << 20,
	}
	if diff := cmp.Diff(resources, c.Resources()); diff != "" {
		t.Errorf("Resources (-want +got):\n%s", diff)
	}
	if c.Sandbox.Isolation != jail.IsolationNamespaces || Default("freebsd").Sandbox.Isolation != jail.IsolationJail {
		t.Error("auto did not become the platform's isolation")
	}
	paths := []string{c.JailSocket(), c.ReaperSocket(), c.OperatorSocket(), c.Database()}
	if diff := cmp.Diff([]string{"/var/run/playground/jaild.sock", "/var/run/playground/reaperd.sock",
		"/var/run/playground/operator.sock", "/var/db/playground/playgroundd/accounts.db"}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestHostChecks(t *testing.T) {
	want := preflight.Options{
		StateDir: "/var/db/playground", RunDir: "/var/run/playground", Isolation: "jail", DaemonUser: "playground", SecurelevelMin: 1,
		Storage: "dir",
	}
	if diff := cmp.Diff(want, Default("freebsd").HostChecks()); diff != "" {
		t.Errorf("HostChecks (-want +got):\n%s", diff)
	}
}

func TestDefaultPanicsElsewhere(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Default(plan9) returned")
		}
	}()
	Default("plan9")
}

// keyLine is a commented key of the sample.
var keyLine = regexp.MustCompile(`(?m)^#([a-z_]+ = )`)

func TestSampleIsTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../etc/playground.toml.sample")
	if err != nil {
		t.Fatal(err)
	}
	for _, goos := range []string{"linux", "freebsd"} {
		commented, err := parse(strings.NewReader(string(text)), goos)
		if err != nil {
			t.Fatalf("cannot parse the sample as shipped: %v", err)
		}
		equal(t, Default(goos), commented)
		uncommented, err := parse(strings.NewReader(keyLine.ReplaceAllString(string(text), "$1")), goos)
		if err != nil {
			t.Fatalf("cannot parse the sample with its keys: %v", err)
		}
		equal(t, Default(goos), uncommented)
	}
}

// A key missing from the sample would pass the comparison above, since its default would hold.
func TestSampleHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("../etc/playground.toml.sample")
	if err != nil {
		t.Fatal(err)
	}
	section, have := "", []string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
		} else if m := keyLine.FindStringSubmatch(line); m != nil {
			have = append(have, section+"."+strings.TrimSuffix(m[1], " = "))
		}
	}
	var want []string
	for s := range reflect.TypeFor[raw]().Fields() {
		for k := range s.Type.Fields() {
			want = append(want, s.Tag.Get("toml")+"."+k.Tag.Get("toml"))
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the sample's keys differ from the code's (-code +sample):\n%s", diff)
	}
}

func TestParseValues(t *testing.T) {
	const text = `
[host]
prefix = "lab"
securelevel_min = -1
[http]
listen = "[::1]:0"
allowed_hosts = ["agents.example.org", "10.0.0.1:8787"]
allowed_origins = ["https://chat.example.org"]
metrics_listen = "localhost:9787"
[sandbox]
isolation = "none"
network = "host"
[jobs]
ring_bytes = 1048576
ttl = "1h30m"
[resources]
memory = "0.5GiB"
swap = 0
`
	got, err := parse(strings.NewReader(text), "linux")
	if err != nil {
		t.Fatal(err)
	}
	want := Default("linux")
	want.Host.Prefix, want.Host.SecurelevelMin = "lab", -1
	want.HTTP.Listen, want.HTTP.MetricsListen = "[::1]:0", "localhost:9787"
	want.HTTP.AllowedHosts = []string{"agents.example.org", "10.0.0.1:8787"}
	want.HTTP.AllowedOrigins = []string{"https://chat.example.org"}
	want.Sandbox.Isolation, want.Sandbox.Network = jail.IsolationNone, jail.NetworkHost
	want.Jobs.Limits.RingBytes, want.Jobs.Limits.TTL = 1<<20, 90*time.Minute
	want.resources.MemoryBytes, want.resources.SwapBytes = 512<<20, 0
	equal(t, want, got)
}

func TestParseStorage(t *testing.T) {
	const text = `
[sandbox]
storage = "zfs"
dataset = "zroot/playground"
template = "base-14.3"
quota = "20GiB"
devfs_ruleset = 17
tmp_bytes = "1GiB"
addresses = "fd00:706c:6179::/64"
`
	got, err := parse(strings.NewReader(text), "freebsd")
	if err != nil {
		t.Fatal(err)
	}
	want := Default("freebsd")
	want.Sandbox.Storage, want.Sandbox.Dataset, want.Sandbox.Template = jail.StorageZFS, "zroot/playground", "base-14.3"
	want.Sandbox.Quota, want.Sandbox.DevfsRuleset, want.Sandbox.TmpBytes = 20<<30, 17, 1<<30
	want.Sandbox.Addresses = netip.MustParsePrefix("fd00:706c:6179::/64")
	equal(t, want, got)
	if o := got.HostChecks(); o.Storage != "zfs" || o.Dataset != "zroot/playground" || o.Quota != 20<<30 || o.DevfsRuleset != 17 {
		t.Errorf("HostChecks = %+v", o)
	}
}

func TestParseWork(t *testing.T) {
	const text = `
[work]
operator = "did:sync:user:ada"
provider = "openai"
model = "qwen3:8b"
base_url = "http://127.0.0.1:8000/v1"
prices = { "qwen3:8b" = { input = 0, output = 0.5 } }
capacity = 3
stop_grace = "2s"
data_dir = "/srv/data"
host_tools = true
`
	got, err := parse(strings.NewReader(text), "linux")
	if err != nil {
		t.Fatal(err)
	}
	want := Default("linux")
	want.Work = Work{Operator: "did:sync:user:ada", Provider: ProviderOpenAI, Model: "qwen3:8b", BaseURL: "http://127.0.0.1:8000/v1",
		MaxTokens: 8192, Prices: map[string]Price{"qwen3:8b": {Output: 0.5}}, Capacity: 3, StopGrace: 2 * time.Second, DataDir: "/srv/data", HostTools: true,
		Worker: Worker{UIDBase: 990_000, MemoryBytes: 512 << 20, CPU: time.Hour}}
	equal(t, want, got)
	if c := got; c.Records() != "/var/db/playground/playgroundd/records.db" || c.InstanceKey() != "/var/db/playground/playgroundd/instance.key" {
		t.Errorf("paths: %s, %s", c.Records(), c.InstanceKey())
	}
}

func TestParseGateway(t *testing.T) {
	const text = `
[http]
catalogue = "workers"
sessions_per_tenant = 5
[gateway]
manifest = "/etc/workers.json"
exchanges_per_tenant = 2
exchanges_per_host = 3
sessions_per_host = 6
response_bytes = "1MiB"
answer_time = "30s"
stream_time = "1h"
`
	got, err := parse(strings.NewReader(text), "linux")
	if err != nil {
		t.Fatal(err)
	}
	want := Default("linux")
	want.HTTP.Catalogue, want.HTTP.SessionsPerTenant = CatalogueWorkers, 5
	want.Gateway = Gateway{Manifest: "/etc/workers.json", ExchangesPerTenant: 2, ExchangesPerHost: 3, SessionsPerHost: 6, ResponseBytes: 1 << 20,
		AnswerTime: 30 * time.Second, StreamTime: time.Hour}
	equal(t, want, got)
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("d", 90)
	tests := []struct {
		name, goos, text string
		want             []string // parts of the message
	}{
		{"unknown key", "linux", "\n[host]\nprefx = \"a\"\n", []string{`line 3: unknown key "host.prefx"`}},
		{"unknown keys, all told", "linux", "[host]\na = 1\n[jobs]\nb = 2\n[nope]\nc = 3\n",
			[]string{`line 2: unknown key "host.a"`, `line 4: unknown key "jobs.b"`, `line 5: unknown key "nope`}},
		{"syntax", "linux", "[host]\nprefix = pg\n", []string{"line 2, column 10"}},
		{"double key", "linux", "[jobs]\nwarm = 1\nwarm = 2\n", []string{"warm"}},
		{"wrong type", "linux", "[jobs]\nwarm = \"two\"\n", []string{"line 2", "warm"}},
		{"bare letter", "linux", "[jobs]\nring_bytes = \"4M\"\n", []string{"line 2", `"4M" is not a size`, "4MiB"}},
		{"duration without unit", "linux", "[jobs]\nttl = 60\n", []string{"line 2", "jobs.ttl", "integer"}},
		{"negative duration", "linux", "[jobs]\nttl = \"-1h\"\n", []string{"line 2: jobs.ttl", "must be a duration"}},
		{"duration out of range", "linux", "\n[jobs]\n\nttl = \"0s\"\n", []string{"line 4: jobs.ttl", "between 1s and 720h"}},
		{"limit of another key is wrong", "linux", "[jobs]\nexec_max = \"x\"\n", []string{"line 2: jobs.exec_max"}},
		{"dotted key's line", "linux", "\njobs.warm = 99\n", []string{"line 2: jobs.warm"}},
		{"inline table", "linux", "\njobs = { warm = 99 }\n", []string{"jobs.warm"}},
		{"unknown key of an inline table", "linux", "\njobs = { warn = 1 }\n", []string{"line 2: unknown key", "warn"}},
		{"unknown table", "linux", "[jobs.more]\na = 1\n", []string{"line 1: unknown key", "jobs.more"}},
		{"negative size", "linux", "[resources]\nmemory = -1\n", []string{"line 2: resources.memory", "0 (no limit)"}},
		{"empty prefix", "linux", "[host]\nprefix = \"\"\n", []string{"host.prefix", "small letters"}},
		{"prefix with hyphen", "linux", "[host]\nprefix = \"a-b\"\n", []string{"host.prefix"}},
		{"relative folder", "linux", "[host]\nstate_dir = \"state\"\n", []string{"host.state_dir", "absolute"}},
		{"root folder", "linux", "[host]\nstate_dir = \"/\"\n", []string{"host.state_dir", "not be the root"}},
		{"unclean folder", "linux", "[host]\nrun_dir = \"/a/../b\"\n", []string{"host.run_dir", `write it as "/b"`}},
		{"folder with newline", "linux", "[host]\nrun_dir = \"/a\\nb\"\n", []string{"host.run_dir", "control"}},
		{"one folder for both", "linux", "[host]\nrun_dir = \"/var/db/playground\"\n", []string{"must differ"}},
		{"long socket path", "linux", "[host]\nrun_dir = \"/" + long + "\"\n", []string{"host.run_dir", "105 bytes", "103"}},
		{"daemon as root", "linux", "[host]\ndaemon_user = \"root\"\n", []string{"host.daemon_user"}},
		{"securelevel that is none", "freebsd", "[host]\nsecurelevel_min = 4\n", []string{"host.securelevel_min", "between -1 and 3"}},
		{"listen without port", "linux", "[http]\nlisten = \"127.0.0.1\"\n", []string{"http.listen", "port"}},
		{"listen everywhere by silence", "linux", "[http]\nlisten = \":8787\"\n", []string{"http.listen", "0.0.0.0:8787"}},
		{"listen on a name", "linux", "[http]\nlisten = \"example.org:80\"\n", []string{"http.listen", "IP address"}},
		{"bare IPv6", "linux", "[http]\nlisten = \"::1:80\"\n", []string{"brackets"}},
		{"port 02280", "linux", "[http]\nlisten = \"127.0.0.1:02280\"\n", []string{"http.listen", "port"}},
		{"port too large", "linux", "[http]\nlisten = \"127.0.0.1:65536\"\n", []string{"http.listen", "port"}},
		{"public metrics", "linux", "[http]\nmetrics_listen = \"0.0.0.0:1\"\n", []string{"http.metrics_listen", "loopback"}},
		{"host with scheme", "linux", "[http]\nallowed_hosts = [\"http://a\"]\n", []string{"http.allowed_hosts"}},
		{"origin with path", "linux", "[http]\nallowed_origins = [\"https://a/b\"]\n", []string{"http.allowed_origins"}},
		{"origin star", "linux", "[http]\nallowed_origins = [\"*\"]\n", []string{"http.allowed_origins"}},
		{"body too small for a file", "linux", "[http]\nbody_bytes = \"1MiB\"\n", []string{"http.body_bytes", "base64"}},
		{"isolation of the other system", "linux", "[sandbox]\nisolation = \"jail\"\n", []string{"auto, namespaces, none"}},
		{"network of the other system", "freebsd", "[sandbox]\nnetwork = \"host\"\n", []string{"none, inherit, address, vnet"}},
		{"uid_base among real users", "linux", "[sandbox]\nuid_base = 1000\n", []string{"sandbox.uid_base"}},
		{"relative PATH", "linux", "[sandbox]\npath = \"/bin:.\"\n", []string{"sandbox.path", `"."`}},
		{"empty PATH element", "linux", "[sandbox]\npath = \"/bin::/usr/bin\"\n", []string{"sandbox.path"}},
		{"lang with space", "linux", "[sandbox]\nlang = \"C UTF\"\n", []string{"sandbox.lang"}},
		{"host below tenant", "linux", "[jobs]\nactive_per_host = 4\n", []string{"jobs.active_per_host", "between 8"}},
		{"fewer handles than jobs", "linux", "[jobs]\nretained_per_tenant = 2\n", []string{"jobs.retained_per_tenant"}},
		{"page over ring", "linux", "[jobs]\nring_bytes = \"64KiB\"\n", []string{"jobs.page_bytes", "4KiB and 64KiB"}},
		{"command over execve", "linux", "[jobs]\ncommand_bytes = \"1MiB\"\n", []string{"jobs.command_bytes", "120KiB"}},
		{"default over max", "linux", "[jobs]\nexec_max = \"30s\"\n", []string{"jobs.exec_default", "30s"}},
		{"tiny memory", "linux", "[resources]\nmemory = \"1KiB\"\n", []string{"resources.memory", "0 (no limit)"}},
		{"storage of the other system", "linux", "[sandbox]\nstorage = \"zfs\"\n", []string{"sandbox.storage", "one of dir"}},
		{"unknown storage", "freebsd", "[sandbox]\nstorage = \"ufs\"\n", []string{"sandbox.storage", "dir, zfs"}},
		{"zfs without dataset", "freebsd", "[sandbox]\nstorage = \"zfs\"\n", []string{"sandbox.dataset", "zroot/playground"}},
		{"dataset like an option", "freebsd", "[sandbox]\ndataset = \"-r/x\"\n", []string{"sandbox.dataset"}},
		{"dataset that is a snapshot", "freebsd", "[sandbox]\ndataset = \"z/x@y\"\n", []string{"sandbox.dataset"}},
		{"dataset with an empty part", "freebsd", "[sandbox]\ndataset = \"z//x\"\n", []string{"sandbox.dataset"}},
		{"template that is a path", "freebsd", "[sandbox]\ntemplate = \"../x\"\n", []string{"sandbox.template"}},
		{"quota that dir cannot keep", "freebsd", "[sandbox]\nquota = \"1GiB\"\n", []string{"sandbox.quota", "cannot bound", "zfs"}},
		{"tiny tmp", "freebsd", "[sandbox]\ntmp_bytes = 1\n", []string{"sandbox.tmp_bytes", "0 (no limit)"}},
		{"ruleset too large", "freebsd", "[sandbox]\ndevfs_ruleset = 65536\n", []string{"sandbox.devfs_ruleset"}},
		{"addresses without length", "freebsd", "[sandbox]\naddresses = \"127.1.0.0\"\n", []string{"sandbox.addresses", "127.80.0.0/16"}},
		{"addresses with host bits", "freebsd", "[sandbox]\naddresses = \"127.1.2.3/16\"\n", []string{"sandbox.addresses", "127.1.0.0/16"}},
		{"too few addresses", "freebsd", "[sandbox]\naddresses = \"127.1.0.0/30\"\n", []string{"sandbox.addresses", "at least 8"}},
		{"multicast addresses", "freebsd", "[sandbox]\naddresses = \"224.0.0.0/16\"\n", []string{"sandbox.addresses"}},
		{"operator that is the kernel", "linux", "[work]\noperator = \"did:sync:system:engine\"\n", []string{"line 2: work.operator", "did:sync:user:operator"}},
		{"operator that is no DID", "linux", "[work]\noperator = \"root\"\n", []string{"work.operator"}},
		{"unknown provider", "linux", "[work]\nprovider = \"eliza\"\n", []string{"work.provider", "anthropic"}},
		{"provider without model and key", "linux", "[work]\nprovider = \"anthropic\"\n", []string{"work.model", "work.key_file"}},
		{"scripted without script", "linux", "[work]\nprovider = \"scripted\"\n", []string{"work.script"}},
		{"relative script", "linux", "[work]\nscript = \"x.json\"\n", []string{"work.script", "absolute"}},
		{"key over plain http", "linux", "[work]\nbase_url = \"http://10.0.0.1/v1\"\nkey_file = \"/k\"\n", []string{"work.base_url", "https://"}},
		{"base_url with a password", "linux", "[work]\nbase_url = \"https://a:b@c/\"\n", []string{"work.base_url"}},
		{"base_url that is a file", "linux", "[work]\nbase_url = \"file:///etc/passwd\"\n", []string{"work.base_url"}},
		{"price that is no number", "linux", "[work]\nprices = { m = { input = nan, output = 1 } }\n", []string{"work.prices.m"}},
		{"price below zero", "linux", "[work]\nprices = { m = { input = -1, output = 1 } }\n", []string{"work.prices.m"}},
		{"unknown key of a price", "linux", "[work.prices.m]\nin = 1\n", []string{"line 2: unknown key", "work.prices.m.in"}},
		{"capacity too large", "linux", "[work]\ncapacity = 65\n", []string{"work.capacity", "0 (as memory allows) or between 1 and 64"}},
		{"stop_grace too long", "linux", "[work]\nstop_grace = \"1h\"\n", []string{"work.stop_grace"}},
		{"data_dir around our state", "linux", "[work]\ndata_dir = \"/var/db\"\n", []string{"work.data_dir", "/var/db/playground"}},
		{"data_dir among the sockets", "linux", "[work]\ndata_dir = \"/var/run/playground/x\"\n", []string{"work.data_dir"}},
		{"worker ids among the tenants'", "linux", "[work]\nworker_uid_base = 999900\n", []string{"work.worker_uid_base", "below sandbox.uid_base"}},
		{"too little memory for a worker", "linux", "[work]\nworker_memory = \"1MiB\"\n", []string{"work.worker_memory"}},
		{"max_tokens too small", "linux", "[work]\nmax_tokens = 1\n", []string{"work.max_tokens"}},
		{"unknown catalogue", "linux", "[http]\ncatalogue = \"both\"\n", []string{"line 2: http.catalogue", "sandbox, workers"}},
		{"workers without manifest", "linux", "[http]\ncatalogue = \"workers\"\n", []string{"gateway.manifest", "name the file"}},
		{"relative manifest", "linux", "[gateway]\nmanifest = \"w.json\"\n", []string{"line 2: gateway.manifest", "absolute"}},
		{"no exchanges", "linux", "[gateway]\nexchanges_per_tenant = 0\n", []string{"gateway.exchanges_per_tenant"}},
		{"fewer exchanges on the host", "linux", "[gateway]\nexchanges_per_host = 63\n", []string{"gateway.exchanges_per_host", "between 64"}},
		{"fewer sessions on the host", "linux", "[gateway]\nsessions_per_host = 63\n", []string{"gateway.sessions_per_host", "between 64"}},
		{"small answers", "linux", "[gateway]\nresponse_bytes = 1\n", []string{"gateway.response_bytes"}},
		{"no time", "linux", "[gateway]\nanswer_time = \"0s\"\nstream_time = \"1s\"\n", []string{"gateway.answer_time", "gateway.stream_time"}},
		{"log level", "linux", "[log]\nlevel = \"loud\"\n", []string{"log.level", "debug, info, warn, error"}},
		{"several problems at once", "linux", "[log]\nlevel = \"\"\n[jobs]\nwarm = -1\n", []string{"log.level", "jobs.warm"}},
		{"not TOML at all", "linux", "\x00\xff", []string{"line 1"}},
		{"platform without isolation", "plan9", "", []string{"plan9"}},
		{"too large", "linux", strings.Repeat("#\n", maxFile), []string{"larger than 1MiB"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(strings.NewReader(tt.text), tt.goos)
			if err == nil {
				t.Fatal("accepted")
			}
			if tt.goos != "plan9" && !errors.Is(err, fault.Invalid) {
				t.Errorf("kind = %q, want invalid", fault.KindOf(err))
			}
			if fault.HintOf(err) == "" {
				t.Error("no hint")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "playground.toml")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, fault.Invalid) {
		t.Errorf("Load of nothing = %v", err)
	}
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("[host]\nprefix = \"x\"\n", 0o644)
	if c, err := Load(path); err != nil || c.Host.Prefix != "x" {
		t.Errorf("Load = %v, %v", c.Host.Prefix, err)
	}
	write("[host]\nprefix = \"x\"\n", 0o646)
	if _, err := Load(path); err == nil || fault.HintOf(err) != "chmod o-w "+path {
		t.Errorf("Load of a file anybody may write = %v (hint %q)", err, fault.HintOf(err))
	}
	write("[host]\nx = 1\n", 0o644)
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("Load of an unknown key = %v", err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("Load of a folder succeeded")
	}
}
