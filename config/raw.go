package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"playground/fault"
)

// raw is the file as it is written; its tags are the file's keys and a test compares them with the sample. Nothing
// outside this package sees it: validate makes a Config of it.
type raw struct {
	Host      rawHost      `toml:"host"`
	HTTP      rawHTTP      `toml:"http"`
	Sandbox   rawSandbox   `toml:"sandbox"`
	Jobs      rawJobs      `toml:"jobs"`
	Resources rawResources `toml:"resources"`
	Faculty   rawFaculty   `toml:"faculty"`
	Gateway   rawGateway   `toml:"gateway"`
	Work      rawWork      `toml:"work"`
	Log       rawLog       `toml:"log"`
}

type rawHost struct {
	Prefix     string `toml:"prefix"`
	StateDir   string `toml:"state_dir"`
	RunDir     string `toml:"run_dir"`
	LibexecDir string `toml:"libexec_dir"`
	DaemonUser string `toml:"daemon_user"`

	SecurelevelMin int64 `toml:"securelevel_min"`
}

type rawHTTP struct {
	Listen            string   `toml:"listen"`
	AllowedHosts      []string `toml:"allowed_hosts"`
	AllowedOrigins    []string `toml:"allowed_origins"`
	BodyBytes         Bytes    `toml:"body_bytes"`
	SessionIdle       duration `toml:"session_idle"`
	SessionsPerTenant int64    `toml:"sessions_per_tenant"`
	MetricsListen     string   `toml:"metrics_listen"`
	Catalogue         string   `toml:"catalogue"`
}

type rawSandbox struct {
	Isolation string   `toml:"isolation"`
	Network   string   `toml:"network"`
	HandleTTL duration `toml:"handle_ttl"`
	UIDBase   int64    `toml:"uid_base"`
	PileSeed  string   `toml:"pile_seed"`
	Lang      string   `toml:"lang"`
	Path      string   `toml:"path"`

	Storage      string `toml:"storage"`
	Dataset      string `toml:"dataset"`
	Template     string `toml:"template"`
	Quota        Bytes  `toml:"quota"`
	DevfsRuleset int64  `toml:"devfs_ruleset"`
	TmpBytes     Bytes  `toml:"tmp_bytes"`
	Addresses    string `toml:"addresses"`
}

type rawJobs struct {
	ActivePerTenant   int64    `toml:"active_per_tenant"`
	ActivePerHost     int64    `toml:"active_per_host"`
	RetainedPerTenant int64    `toml:"retained_per_tenant"`
	RetainedPerHost   int64    `toml:"retained_per_host"`
	RingBytes         Bytes    `toml:"ring_bytes"`
	RingChunks        int64    `toml:"ring_chunks"`
	PageBytes         Bytes    `toml:"page_bytes"`
	CommandBytes      Bytes    `toml:"command_bytes"`
	FileBytes         Bytes    `toml:"file_bytes"`
	TextBytes         Bytes    `toml:"text_bytes"`
	TTL               duration `toml:"ttl"`
	ExecDefault       duration `toml:"exec_default"`
	ExecMax           duration `toml:"exec_max"`
	JobMax            duration `toml:"job_max"`
	WaitMax           duration `toml:"wait_max"`
	TermGrace         duration `toml:"term_grace"`
	ProofDeadline     duration `toml:"proof_deadline"`
	Warm              int64    `toml:"warm"`
}

type rawResources struct {
	Processes       int64 `toml:"processes"`
	Threads         int64 `toml:"threads"`
	OpenFiles       int64 `toml:"open_files"`
	Swap            Bytes `toml:"swap"`
	Memory          Bytes `toml:"memory"`
	CPUPercent      int64 `toml:"cpu_percent"`
	Pseudoterminals int64 `toml:"pseudoterminals"`
	WritePerSecond  Bytes `toml:"write_per_second"`
}

type rawLog struct {
	Level string `toml:"level"`
}

// maxFile bounds what Parse reads; the sample is below 10 KiB.
const maxFile = 1 << 20

// sampleHint closes every refusal: the sample is where the answer is.
const sampleHint = "playground.toml.sample documents every key, its default and its range; check the file with -t"

// decode reads TOML over the defaults and refuses what it does not know. It also returns the line of each key.
func decode(r io.Reader) (raw, map[string]int, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return raw{}, nil, fault.Wrap(fault.Invalid, err, "cannot read the file")
	}
	if len(text) > maxFile {
		return raw{}, nil, fault.New(fault.Invalid, "the file is larger than %v", Bytes(maxFile)).WithHint(sampleHint)
	}
	v := defaults()
	err = strict(text, &v)
	if err == nil {
		return v, lines(text), nil
	}
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		return raw{}, nil, unknownKeys(missing)
	}
	message := strings.TrimPrefix(err.Error(), "toml: ")
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		message = place(bad) + message
	}
	return raw{}, nil, fault.New(fault.Invalid, "%s", message).WithHint(sampleHint)
}

func strict(text []byte, v any) error {
	return toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(v)
}

// lines maps the keys of a decodable file to their lines, so that a value out of range is as easy to find as an unknown
// key: decoded into empty sections, every key is unknown.
func lines(text []byte) map[string]int {
	var sections struct {
		Host      struct{} `toml:"host"`
		HTTP      struct{} `toml:"http"`
		Sandbox   struct{} `toml:"sandbox"`
		Jobs      struct{} `toml:"jobs"`
		Resources struct{} `toml:"resources"`
		Faculty   struct{} `toml:"faculty"`
		Gateway   struct{} `toml:"gateway"`
		Work      struct{} `toml:"work"`
		Log       struct{} `toml:"log"`
	}
	at := make(map[string]int)
	missing, ok := errors.AsType[*toml.StrictMissingError](strict(text, &sections))
	if !ok {
		return at
	}
	for i := range missing.Errors {
		e := &missing.Errors[i]
		row, _ := e.Position()
		at[strings.ToLower(strings.Join(e.Key(), "."))] = row
	}
	return at
}

// unknownKeys names every unknown key with its line, so that one run shows all typing errors.
func unknownKeys(missing *toml.StrictMissingError) error {
	var all []string
	for i := range missing.Errors {
		e := &missing.Errors[i]
		row, _ := e.Position()
		all = append(all, fmt.Sprintf("line %d: unknown key %q", row, strings.Join(e.Key(), ".")))
	}
	return fault.New(fault.Invalid, "%s", strings.Join(all, "; ")).WithHint(sampleHint)
}

// place returns "line R, column C: key K: " as far as the decoder knows it.
func place(e *toml.DecodeError) string {
	row, column := e.Position()
	s := fmt.Sprintf("line %d, column %d: ", row, column)
	if key := e.Key(); len(key) > 0 {
		s += strings.Join(key, ".") + ": "
	}
	return s
}
