package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the prefix of every package of this repository.
const module = "playground"

// mayImport is the import table: package -> the packages of this repository it may import. What is not listed is
// forbidden. The table reads from the leaves up, in the direction opposite to a request's.
var mayImport = map[string][]string{
	"fault":              {},
	"tenancy":            {"fault"},
	"policy":             {"fault"},
	"inference":          {"fault"},
	"inference/provider": {"inference", "fault"},
	"version":            {},
	"seqpacket":          {},
	"procfs":             {},
	"confine":            {"procfs", "fault", "jail", "reaper/bsdproc"},
	"confine/keeper":     {"confine", "fault", "jail", "racct", "reaper/bsdproc"},
	"confine/escape":     {"confine", "fault"},
	"racct":              {"fault"},
	"ring":               {"fault"},
	"job":                {"ring", "fault"},
	"localtcp":           {},
	"jail/holder":        {"racct", "localtcp", "seqpacket", "procfs", "fault"},
	"jail":               {"jail/holder", "localtcp", "racct", "seqpacket", "procfs", "fault", "tenancy"},
	"reaper/supervisor":  {"reaper/proof", "reaper/bsdproc", "racct", "seqpacket"},
	"reaper/pool":        {"reaper/supervisor", "seqpacket", "fault"},
	"reaper/command":     {"job", "ring", "jail"},
	"reaper/leaf":        {"reaper/command", "reaper/pool", "reaper/proof", "reaper/supervisor", "job", "jail", "racct", "fault"},
	"reaper/jobinit":     {"jail/holder", "racct", "seqpacket", "procfs"},
	"reaper/bsdproc":     {},
	"reaper/proof":       {"reaper/bsdproc", "racct"},
	"reaper": {"reaper/jobinit", "reaper/leaf", "reaper/pool", "reaper/proof", "reaper/command", "reaper/bsdproc",
		"job", "ring", "jail", "racct", "seqpacket", "procfs", "fault"},
	"config":              {"job", "racct", "jail", "fault", "preflight", "tenancy"},
	"daemon":              {"version"},
	"preflight":           {"fault"},
	"account":             {"fault", "tenancy"},
	"record":              {"fault"},
	"workloop/loop":       {"record", "policy", "inference", "fault"},
	"workloop/doors":      {"workloop/loop", "record", "inference", "fault"},
	"localapi":            {"fault"},
	"localapi/jailapi":    {"jail", "localapi", "fault"},
	"localapi/jobapi":     {"job", "ring", "localapi", "fault"},
	"localapi/serviceapi": {"job", "localapi", "fault"},
	"localapi/workerapi":  {"confine", "confine/keeper", "localapi", "fault"},
	"localapi/facultyapi": {"faculty", "localapi", "fault"},
	"faculty":             {"job", "jail", "ring", "fault", "tenancy"},
	"faculty/bundle":      {"jail", "job", "fault"},
	"localapi/userapi":    {"account", "jail", "job", "localapi", "fault", "tenancy"},
	"sandbox":             {"job", "ring", "jail", "fault"},
	"catalogue":           {"sandbox", "job", "ring", "jail", "fault"},
	"transport":           {"account", "catalogue", "fault"},
	"gateway":             {"transport", "fault", "localtcp", "tenancy"},
	"suite":               {"config", "fault"},
	"launch":              {"fault"},
	"cli":                 {"catalogue", "config", "confine", "confine/escape", "faculty", "faculty/bundle", "fault", "gateway", "jail", "job", "localapi/facultyapi", "localapi/jailapi", "localapi/jobapi", "localapi/userapi", "policy", "preflight", "record", "sandbox", "suite", "tenancy", "version", "workapi", "workloop", "workloop/loop"},
	"workloop/tier":       {"fault"},
	"workloop/tool":       {"workloop/loop", "record", "sandbox", "jail", "job", "ring", "fault"},
	"workloop":            {"workloop/doors", "workloop/loop", "workloop/tier", "workloop/tool", "policy", "inference", "record", "racct", "tenancy", "fault"},
	"workloop/breakout":   {"confine", "confine/escape", "workloop", "workloop/loop", "record", "fault"},
	"workapi":             {"confine/escape", "workloop", "workloop/loop", "policy", "record", "localapi", "tenancy", "fault"},
	"mcpclient":           {},
	"demo":                {"cli", "faculty", "faculty/bundle", "fault", "localapi/userapi", "mcpclient", "record", "suite", "version", "workapi", "workloop"},
	"internal/rootd":      {"config", "daemon", "fault", "localapi", "launch"},
	"bench":               {"fault", "inference", "jail", "localapi/userapi", "localapi/workerapi", "mcpclient", "policy", "record", "suite", "version", "workapi", "workloop", "workloop/doors", "workloop/loop"},
	"internal/genfilter":  {},
	"internal/mkpkg":      {},
	"kit/accept":          {"mcpclient", "reaper/bsdproc", "record", "version"},
	"kit/adversary":       {},
	"kit/mkkit":           {},
	// Stand-ins and helpers of tests.
	"internal/archtest":    {},
	"internal/e2e":         {},
	"internal/rctest":      {},
	"internal/mcpworker":   {},
	"internal/adversary":   {},
	"internal/workertest":  {},
	"internal/socktest":    {"localapi"},
	"internal/sandboxtest": {"jail", "job", "racct", "reaper", "ring"},
	"sandbox/sandboxtest":  {"fault", "jail", "job", "ring"},
}

// A listedPackage is what "go list -json" says of one package.
type listedPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

// list returns the packages of this repository as goos sees them.
func list(t *testing.T, goos string) []listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list for %s: %v\n%s", goos, err, stderr.String())
	}
	var packages []listedPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list for %s: %v", goos, err)
		}
		if len(p.GoFiles) > 0 {
			packages = append(packages, p)
		}
	}
}

// root returns the top folder of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestImports(t *testing.T) {
	for _, goos := range []string{"linux", "freebsd"} {
		t.Run(goos, func(t *testing.T) {
			for _, p := range list(t, goos) {
				checkImports(t, strings.TrimPrefix(p.ImportPath, module+"/"), p.Imports)
			}
		})
	}
}

// checkImports compares one package's imports with the table.
func checkImports(t *testing.T, name string, imports []string) {
	allowed, known := mayImport[name]
	command := strings.HasPrefix(name, "cmd/")
	if !known && !command {
		t.Errorf("package %s is not in the import table: add it to mayImport with what it may import", name)
		return
	}
	for _, path := range imports {
		target, ours := strings.CutPrefix(path, module+"/")
		switch {
		case !ours:
		case strings.HasPrefix(target, "cmd/"):
			t.Errorf("%s imports %s: commands join packages, nothing imports them", name, target)
		case !command && !slices.Contains(allowed, target):
			t.Errorf("%s must not import %s (it may import: %s)", name, target, strings.Join(allowed, ", "))
		}
	}
}

// Libraries that only some packages may use: leaf packages do not log, do not parse flags and know no HTTP.
func TestLibraries(t *testing.T) {
	only := map[string][]string{
		"cel.dev/cel-go/cel":                                      {"policy"},
		"github.com/anthropics/anthropic-sdk-go":                  {"inference/provider"},
		"github.com/openai/openai-go/v3":                          {"inference/provider"},
		"github.com/spf13/cobra":                                  {"cli", "cmd/playground"},
		"github.com/rs/zerolog":                                   {"daemon", "transport", "internal/rootd", "cmd/playgroundd", "cmd/playground-jaild", "cmd/playground-reaperd", "cmd/playground-facultyd"},
		"github.com/rs/zerolog/log":                               {},
		"github.com/modelcontextprotocol/go-sdk/mcp":              {"catalogue", "transport", "cli", "demo", "cmd/playgroundd", "bench", "kit/accept", "mcpclient", "internal/mcpworker"},
		"github.com/prometheus/client_golang/prometheus":          {"cmd/playgroundd", "transport"},
		"modernc.org/sqlite":                                      {"account", "record"},
		"github.com/pelletier/go-toml/v2":                         {"config"},
		"github.com/elastic/go-seccomp-bpf":                       {"jail/holder", "reaper/jobinit", "internal/genfilter"},
		"log":                                                     {"localapi", "transport"}, // net/http's ErrorLog is a *log.Logger
		"unsafe":                                                  {"confine", "confine/escape", "jail", "jail/holder", "launch", "reaper", "reaper/bsdproc", "reaper/jobinit", "racct", "localapi", "daemon", "preflight", "internal/adversary", "kit/adversary"},
		"github.com/coreos/go-systemd/v22/activation":             {"daemon", "cmd/playgroundd"},
		"github.com/coreos/go-systemd/v22/daemon":                 {"daemon"},
		"github.com/prometheus/client_golang/prometheus/promhttp": {"cmd/playgroundd", "transport"},
	}
	for _, goos := range []string{"linux", "freebsd"} {
		for _, p := range list(t, goos) {
			name := strings.TrimPrefix(p.ImportPath, module+"/")
			for _, path := range p.Imports {
				if users, limited := only[path]; limited && !slices.Contains(users, name) {
					t.Errorf("%s (%s) must not import %s (only: %s)", name, goos, path, strings.Join(users, ", "))
				}
			}
		}
	}
}
