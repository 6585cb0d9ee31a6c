package demo

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"playground/cli"
	"playground/config"
	"playground/faculty"
	"playground/fault"
	"playground/inference"
	"playground/suite"
)

// opened is a state folder with the first act's configuration.
func opened(t *testing.T) *demo {
	t.Helper()
	state, err := os.MkdirTemp("/tmp", "pgdemo") // t.TempDir may be too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	d := &demo{state: state}
	if d.suite, err = suite.Open(suite.Options{State: state, Edit: d.firstConfig, Bin: "/usr/local/bin"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.suite.Close)
	return d
}

func TestFirstConfig(t *testing.T) {
	d := opened(t)
	w := d.suite.Config.Work
	if w.Provider != config.ProviderEcho || w.Capacity != 1 || w.DataDir != filepath.Join(d.suite.Dir, "plane") || len(d.settings) == 0 {
		t.Errorf("%+v, told as %q", w, d.settings)
	}
}

// What the daemons are given in the second act is what they take.
func TestSecondConfig(t *testing.T) {
	for _, built := range []bool{false, true} {
		d := opened(t)
		d.faculty = built
		if err := d.secondConfig(); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(d.suite.ConfigPath)
		if err != nil {
			t.Fatal(err)
		}
		if c.Work.Provider != config.ProviderScripted || c.Work.Capacity != 1 || (c.Faculty.Definitions != "") != built || (c.HTTP.Catalogue == "workers") != built {
			t.Errorf("built %v: %+v, %+v, %+v", built, c.Work, c.Faculty, c.HTTP)
		}
		text, err := os.ReadFile(c.Work.Script)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inference.ParseScript(text); err != nil {
			t.Error(err)
		}
		if !built {
			continue
		}
		if text, err = os.ReadFile(c.Faculty.Definitions); err != nil {
			t.Fatal(err)
		}
		defs, err := faculty.Parse(text)
		if err != nil || len(defs) != 1 || defs[0].Tenant != third || defs[0].Program != "/home/mary/faculties/faculty-notebook/current/faculty-notebook" {
			t.Errorf("%+v, %v", defs, err)
		}
		env := cli.Env{Config: d.suite.ConfigPath, Stdout: os.Stderr, Stderr: os.Stderr}
		if err := env.FacultyCheck(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestOutOfReach(t *testing.T) {
	fetch := fault.New(fault.Unavailable, "cannot fetch the dependencies with \"go mod vendor\"")
	for name, test := range map[string]struct {
		err       error
		log, want string
	}{
		"built":       {nil, "there is no go in this sandbox's PATH", ""},
		"no network":  {fetch, "go: downloading\ngo: dial tcp: no route to host\n", "its modules are out of reach: go: dial tcp: no route to host"},
		"no go there": {errors.New("exit status 127"), "there is no go in this sandbox's PATH: install it", "there is no go in this sandbox's PATH"},
		"broken":      {errors.New("exit status 1"), "main.go:3: syntax error", ""},
		"no daemon":   {fault.New(fault.Unavailable, "cannot reach playground-jaild"), "", ""},
	} {
		if got := outOfReach(test.err, test.log); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestSource(t *testing.T) {
	d := &demo{}
	if _, why := d.source(); why != noIsolation {
		t.Errorf("without isolation: %q", why)
	}
	t.Setenv("PATH", "")
	d.isolated = true
	if _, why := d.source(); !strings.Contains(why, "no go") {
		t.Errorf("without go: %q", why)
	}
	bin := t.TempDir()
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(bin, "bin", "go"), "#!/bin/sh\n", 0o755)
	t.Setenv("PATH", filepath.Join(bin, "bin"))
	t.Chdir(bin)
	d.env.Bin = filepath.Join(bin, "bin")
	if _, why := d.source(); !strings.Contains(why, "examples/faculty-notebook") {
		t.Errorf("without a source: %q", why)
	}
	write(filepath.Join(bin, "examples", notebook, "go.mod"), "module x\n", 0o600)
	if dir, why := d.source(); why != "" || !strings.HasSuffix(dir, filepath.Join("examples", notebook)) {
		t.Errorf("%q, %q", dir, why)
	}
}

func TestRequestOnOneLine(t *testing.T) {
	r := request{method: "POST", path: "/v1/runs/th_0123456789abcdef0/events", member: "ada", body: map[string]string{"type": "stop"}}
	if got, want := shorter(r.String(), "th_0123456789abcdef0"), `POST /v1/runs/th_0123456789ab.../events  as did:sync:user:ada  {"type":"stop"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	body, err := json.Marshal(map[string]string{"code": "X", "message": "no"})
	if err != nil {
		t.Fatal(err)
	}
	if got := (reply{status: 503, body: body}).refusal(); got != "503 X: no" {
		t.Error(got)
	}
}
