package faculty_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/faculty"
	"playground/fault"
)

const two = `{"workers": [
	{"tenant": "bob", "name": "search", "program": "/opt/f/search", "address": "[::1]:9002", "token_file": "/etc/t/bob"},
	{"tenant": "alice", "program": "/opt/f/notebook", "args": ["--token", "{token_file}"], "address": "127.0.0.1:9001",
	 "token_file": "/etc/t/alice", "env": {"MODE": "x"}, "restart_delay": "5s"}
]}`

func TestParse(t *testing.T) {
	got, err := faculty.Parse([]byte(two))
	if err != nil {
		t.Fatal(err)
	}
	want := []faculty.Definition{
		{Tenant: "alice", Program: "/opt/f/notebook", Args: []string{"--token", "{token_file}"}, Address: netip.MustParseAddrPort("127.0.0.1:9001"),
			TokenFile: "/etc/t/alice", Env: map[string]string{"MODE": "x"}, RestartDelay: 5 * time.Second},
		{Tenant: "bob", Name: "search", Program: "/opt/f/search", Address: netip.MustParseAddrPort("[::1]:9002"),
			TokenFile: "/etc/t/bob", RestartDelay: time.Second},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[0].ID() != "alice" || got[1].ID() != "bob.search" {
		t.Errorf("ids %s, %s", got[0].ID(), got[1].ID())
	}
	if got, err := faculty.Parse([]byte(`{"workers":[]}`)); err != nil || len(got) != 0 {
		t.Errorf("no workers: %v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	// worker is a good one with changes, which are JSON members that replace its own.
	worker := func(changes ...string) string {
		members := map[string]string{"tenant": `"alice"`, "program": `"/p"`, "address": `"127.0.0.1:1"`, "token_file": `"/t"`}
		for _, c := range changes {
			name, value, _ := strings.Cut(c, ":")
			members[name] = value
		}
		var list []string
		for name, value := range members {
			list = append(list, fmt.Sprintf("%q:%s", name, value))
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	file := func(workers ...string) string { return `{"workers":[` + strings.Join(workers, ",") + `]}` }
	if _, err := faculty.Parse([]byte(file(worker()))); err != nil {
		t.Fatal(err)
	}
	many := make([]string, 1025)
	for i := range many {
		many[i] = worker(fmt.Sprintf(`name:"n%d"`, i), fmt.Sprintf(`address:"127.0.%d.%d:1"`, i/250, i%250+1))
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":                 {"", "EOF"},
		"not JSON":              {"workers = 1", "invalid character"},
		"an array":              {"[]", "the file cannot be a JSON array"},
		"null worker":           {file("null"), `worker 1 ("")`},
		"data after":            {file(worker()) + "{}", "data after"},
		"unknown key":           {file(worker(`uid:0`)), `unknown key "uid"`},
		"unknown key above":     {`{"workers":[],"x":1}`, `unknown key "x"`},
		"other letters":         {`{"Workers":[]}`, `unknown key "Workers"`},
		"a key twice":           {`{"workers":[],"workers":[]}`, "twice"},
		"a variable twice":      {file(worker(`env:{"A":"1","A":"2"}`)), "twice"},
		"too deep":              {strings.Repeat(`{"workers":`, 20), ""},
		"no tenant":             {file(worker(`tenant:""`)), "tenant"},
		"a path as tenant":      {file(worker(`tenant:"../x"`)), "tenant"},
		"bad name":              {file(worker(`name:"A.b"`)), "name"},
		"relative program":      {file(worker(`program:"p"`)), "program"},
		"program with dots":     {file(worker(`program:"/a/../p"`)), "program"},
		"program with newline":  {file(worker(`program:"/a\np"`)), "program"},
		"relative token":        {file(worker(`token_file:"t"`)), "token_file"},
		"address without port":  {file(worker(`address:"127.0.0.1"`)), "address"},
		"port 0":                {file(worker(`address:"127.0.0.1:0"`)), "address"},
		"a port with a zero":    {file(worker(`address:"127.0.0.1:09001"`)), "write it as 127.0.0.1:9001"},
		"an address with zeros": {file(worker(`address:"[0::1]:9001"`)), "write it as [::1]:9001"},
		"a name as address":     {file(worker(`address:"localhost:1"`)), "address"},
		"not loopback":          {file(worker(`address:"10.0.0.1:1"`)), "address"},
		"any address":           {file(worker(`address:"0.0.0.0:1"`)), "address"},
		"a zone":                {file(worker(`address:"[::1%lo0]:1"`)), "address"},
		"mapped":                {file(worker(`address:"[::ffff:127.0.0.1]:1"`)), "address"},
		"delay without unit":    {file(worker(`restart_delay:"5"`)), "restart_delay"},
		"delay too short":       {file(worker(`restart_delay:"1ms"`)), "restart_delay"},
		"negative delay":        {file(worker(`restart_delay:"-5s"`)), "restart_delay"},
		"delay as number":       {file(worker(`restart_delay:5`)), "restart_delay"},
		"NUL in args":           {file(worker(`args:["a\u0000"]`)), "NUL"},
		"the host's variable":   {file(worker(`env:{"PATH":"/x"}`)), "PATH is set by the host"},
		"bad variable":          {file(worker(`env:{"A=B":"x"}`)), "not a name"},
		"NUL in variable":       {file(worker(`env:{"A":"\u0000"}`)), "NUL"},
		"large":                 {file(worker(`args:["` + strings.Repeat("x", 40<<10) + `"]`)), "bytes"},
		"too many args":         {file(worker(`args:[` + strings.Repeat(`"a",`, 300) + `"a"]`)), "more than 256"},
		"same worker twice":     {file(worker(), worker(`address:"127.0.0.1:2"`)), "another of this tenant"},
		"same address twice":    {file(worker(), worker(`tenant:"bob"`)), "is that of alice too"},
		"same token for two":    {file(worker(), worker(`tenant:"bob"`, `address:"127.0.0.1:2"`)), "token_file is that of alice too"},
		"cut off":               {`{"workers":[`, "cut off"},
		"too many workers":      {file(many...), "1025 workers"},
		"too large":             {`{"workers":[]}` + strings.Repeat(" ", 1<<20), "over the limit"},
		"all problems are told": {file(worker(`program:"p"`), worker(`tenant:"bob"`, `token_file:"t"`)), "token_file"},
	} {
		t.Run(name, func(t *testing.T) {
			defs, err := faculty.Parse([]byte(test.text))
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), test.want) || fault.HintOf(err) == "" && name != "too large" && name != "too many workers" {
				t.Errorf("got %v, %v", defs, err)
			}
			if err != nil && (strings.Contains(err.Error(), "rawWorker") || len(err.Error()) > 4000) {
				t.Errorf("a text for programmers: %v", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(two))
	f.Add([]byte(`{"workers":[{"tenant":"alice","env":{"A":"1","A":""}}]}`))
	f.Add([]byte(`{"workers":[{"tenant":"alice","program":"/p","address":"127.0.0.1:1","token_file":"/t","args":["{token_file}"]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defs, err := faculty.Parse(text)
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Fatalf("kind of %v", err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatal("it took what is no JSON")
		}
		ids := make(map[string]bool)
		for _, d := range defs {
			if ids[d.ID()] || strings.ContainsAny(d.ID(), "/\x00\n") || !d.Address.Addr().IsLoopback() || d.Address.Port() == 0 ||
				!strings.HasPrefix(d.Program, "/") || !strings.HasPrefix(d.TokenFile, "/") || d.RestartDelay <= 0 {
				t.Fatalf("it took %+v", d)
			}
			ids[d.ID()] = true
		}
	})
}
