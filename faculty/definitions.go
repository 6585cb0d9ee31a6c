package faculty

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"playground/fault"
	"playground/tenancy"
)

// Bounds of a definitions file. What one worker is given must fit one message to the process that starts it.
const (
	MaxDefinitions = 1 << 20 // bytes of the file
	maxWorkers     = 1024
	maxArgs        = 256
	maxWords       = 32 << 10 // bytes of program, arguments and environment together

	defaultDelay = time.Second
	leastDelay   = 100 * time.Millisecond
	mostDelay    = 10 * time.Minute

	maxProblems = 20 // told at once
)

var (
	workerName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// fixedEnv are what every worker gets from the host.
var fixedEnv = []string{"PATH", "PERSONA", "PILE", "TRIBLESPACE_KEY"}

// The file as it is written.
type (
	rawFile struct {
		Workers []rawWorker `json:"workers"`
	}
	rawWorker struct {
		Tenant       string            `json:"tenant"`
		Name         string            `json:"name"`
		Program      string            `json:"program"`
		Args         []string          `json:"args"`
		Address      string            `json:"address"`
		TokenFile    string            `json:"token_file"`
		Env          map[string]string `json:"env"`
		RestartDelay string            `json:"restart_delay"`
	}
)

// Parse reads a definitions file, and returns the definitions by id. It is strict: an unknown key, one that is there twice or in
// other letters, and data after the value are errors. All problems are told at once.
func Parse(text []byte) ([]Definition, error) {
	if len(text) > MaxDefinitions {
		return nil, fault.New(fault.Invalid, "the definitions have %d bytes, over the limit of %d", len(text), MaxDefinitions)
	}
	if err := checkKeys(text); err != nil {
		return nil, fault.Wrap(fault.Invalid, plain(err), "the definitions are not valid").WithHint(pageHint)
	}
	var file rawFile
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, fault.Wrap(fault.Invalid, plain(err), "the definitions are not valid").WithHint(pageHint)
	}
	if len(file.Workers) > maxWorkers {
		return nil, fault.New(fault.Invalid, "the definitions have %d workers, over the limit of %d", len(file.Workers), maxWorkers)
	}
	defs, problems := define(file.Workers)
	if len(problems) > 0 {
		more := ""
		if len(problems) > maxProblems {
			more = fmt.Sprintf("; and %d more", len(problems)-maxProblems)
			problems = problems[:maxProblems]
		}
		return nil, fault.New(fault.Invalid, "the definitions are not valid: %s%s", strings.Join(problems, "; "), more).WithHint(pageHint)
	}
	slices.SortFunc(defs, func(a, b Definition) int { return strings.Compare(a.ID(), b.ID()) })
	return defs, nil
}

const pageHint = "playground-facultyd(8) describes the file"

// plain takes Go's words out of a decoder's error.
func plain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file is empty or cut off (%w)", err)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s cannot be a JSON %s", cmp.Or(wrong.Field, "the file"), wrong.Value)
	}
	return err
}

// define checks all workers, each by itself and against the others.
func define(raw []rawWorker) (defs []Definition, problems []string) {
	ids, addresses, tokens := make(map[string]bool), make(map[netip.AddrPort]string), make(map[string]Definition)
	for i, r := range raw {
		d, wrong := r.build()
		if len(wrong) == 0 && ids[d.ID()] {
			wrong = append(wrong, "there is another of this tenant and name")
		}
		if other, taken := addresses[d.Address]; len(wrong) == 0 && taken {
			wrong = append(wrong, fmt.Sprintf("address %s is that of %s too", d.Address, other))
		}
		if other, taken := tokens[d.TokenFile]; len(wrong) == 0 && taken && other.Tenant != d.Tenant {
			wrong = append(wrong, fmt.Sprintf("token_file is that of %s too: each tenant could speak to the other's worker", other.ID()))
		}
		for _, text := range wrong {
			problems = append(problems, fmt.Sprintf("worker %d (%.70q): %s", i+1, d.ID(), text))
		}
		ids[d.ID()] = true
		addresses[d.Address] = d.ID()
		tokens[d.TokenFile] = d
		defs = append(defs, d)
	}
	return defs, problems
}

// build returns the definition, and what is wrong with it.
func (r rawWorker) build() (d Definition, wrong []string) {
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	d = Definition{Tenant: r.Tenant, Name: r.Name, Program: r.Program, Args: r.Args, TokenFile: r.TokenFile, Env: r.Env, RestartDelay: defaultDelay}
	if err := tenancy.ValidName(r.Tenant); err != nil {
		refuse("tenant: %v", err)
	}
	if r.Name != "" && !workerName.MatchString(r.Name) {
		refuse("name: use small letters, digits and hyphens, at most 32")
	}
	if !cleanPath(r.Program) {
		refuse("program: it must be an absolute path inside the sandbox, without . and ..")
	}
	if !cleanPath(r.TokenFile) {
		refuse("token_file: it must be an absolute path, without . and ..")
	}
	address, err := netip.ParseAddrPort(r.Address)
	if err != nil || !address.Addr().IsLoopback() || address.Addr().Zone() != "" || address.Addr().Is4In6() || address.Port() == 0 {
		refuse("address: it must be a loopback address and a port, such as 127.0.0.1:9001")
	} else if address.String() != r.Address {
		// What is written in another way may be read in another way, by the worker or in the gateway's manifest.
		refuse("address: write it as %s", address)
	}
	d.Address = address
	if r.RestartDelay != "" {
		if d.RestartDelay, err = time.ParseDuration(r.RestartDelay); err != nil || d.RestartDelay < leastDelay || d.RestartDelay > mostDelay {
			refuse("restart_delay: it must be between %v and %v, such as \"5s\"", leastDelay, mostDelay)
		}
	}
	return d, append(wrong, r.checkWords()...)
}

func cleanPath(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != "/" && len(p) <= 1024 &&
		!strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// checkWords says what is wrong with arguments and environment.
func (r rawWorker) checkWords() (wrong []string) {
	size := len(r.Program)
	for _, arg := range r.Args {
		size += len(arg) + 1
		if strings.ContainsRune(arg, 0) {
			wrong = append(wrong, "args: a NUL byte")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		size += len(name) + len(r.Env[name]) + 2
		switch {
		case !envName.MatchString(name):
			wrong = append(wrong, fmt.Sprintf("env: %.40q is not a name", name))
		case slices.Contains(fixedEnv, name):
			wrong = append(wrong, "env: "+name+" is set by the host")
		case strings.ContainsRune(r.Env[name], 0):
			wrong = append(wrong, "env: a NUL byte in "+name)
		}
	}
	if len(r.Args) > maxArgs || len(r.Env) > maxArgs {
		wrong = append(wrong, fmt.Sprintf("args and env: more than %d", maxArgs))
	}
	if size > maxWords {
		wrong = append(wrong, fmt.Sprintf("program, args and env have %d bytes, over %d", size, maxWords))
	}
	return wrong
}

// keysOf are the keys of the file's objects by depth; what lies deeper has keys of the operator's choice.
var keysOf = map[int][]string{
	1: {"workers"},
	2: {"tenant", "name", "program", "args", "address", "token_file", "env", "restart_delay"},
}

// checkKeys refuses what encoding/json lets through: a key that is there twice, or in other letters, and data after the value.
func checkKeys(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := checkValue(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("data after the JSON value, at byte %d", dec.InputOffset())
	}
	return nil
}

// maxDepth is more than a valid file has.
const maxDepth = 8

// checkValue reads one value; objects is how many objects are around it.
func checkValue(dec *json.Decoder, objects int) error {
	if objects > maxDepth {
		return fmt.Errorf("too deep, at byte %d", dec.InputOffset())
	}
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for dec.More() {
			if err := checkValue(dec, objects); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := checkObject(dec, objects+1); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = dec.Token() // the bracket
	return err
}

func checkObject(dec *json.Decoder, objects int) error {
	seen := make(map[string]bool)
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if allowed, fixed := keysOf[objects]; fixed && !slices.Contains(allowed, key) {
			return fmt.Errorf("unknown key %.40q, at byte %d", key, dec.InputOffset())
		}
		if seen[key] {
			return fmt.Errorf("key %.40q twice, at byte %d", key, dec.InputOffset())
		}
		seen[key] = true
		if err := checkValue(dec, objects); err != nil {
			return err
		}
	}
	return nil
}

// Load reads and parses a definitions file; read refuses one that others could read or replace.
func Load(file string, read func(path string, most int64) ([]byte, error)) ([]Definition, error) {
	text, err := read(file, MaxDefinitions)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot use the definitions").WithHint("%s", cmp.Or(fault.HintOf(err), pageHint))
	}
	defs, err := Parse(text)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot use %q", file).WithHint("%s", fault.HintOf(err))
	}
	return defs, nil
}
