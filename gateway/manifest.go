package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"playground/fault"
	"playground/tenancy"
)

// Bounds of a manifest.
const (
	MaxManifest = 1 << 20 // bytes
	maxWorkers  = 1024
)

// A Manifest is what the operator gives each tenant. The zero value gives nobody anything.
type Manifest struct{ workers []Worker }

// A Worker is one tenant's destination.
type Worker struct {
	Tenant    string
	Address   netip.AddrPort // loopback
	TokenFile string
	token     *string // by a pointer, which no format verb follows
}

// String names the worker.
func (w Worker) String() string { return w.Tenant + " at " + w.Address.String() }

// Load reads the manifest at path and the token files that it names. Read returns a file's content, of at most so many bytes
// and only if nobody else can read or replace it.
func Load(path string, read func(path string, most int64) ([]byte, error)) (Manifest, error) {
	text, err := read(path, MaxManifest)
	if err != nil {
		return Manifest{}, fault.Wrap(fault.Invalid, err, "cannot load the workers' manifest").WithHint("%s", fault.HintOf(err))
	}
	m, err := Parse(text)
	if err != nil {
		return Manifest{}, fault.Wrap(fault.Invalid, err, "cannot load the workers' manifest %q", path).WithHint("%s", fault.HintOf(err))
	}
	seen := map[string]string{}
	for i := range m.workers {
		w := &m.workers[i]
		token, err := read(w.TokenFile, 2*tenancy.MaxToken)
		if err != nil {
			return Manifest{}, fault.Wrap(fault.Invalid, err, "cannot use the worker of tenant %q", w.Tenant).WithHint("%s", fault.HintOf(err))
		}
		token = bytes.TrimRight(token, "\r\n") // which editors add
		if err := tenancy.ValidToken(token); err != nil {
			return Manifest{}, fault.Wrap(fault.Invalid, err, "cannot use the token file of tenant %q", w.Tenant).WithHint("%s", fault.HintOf(err))
		}
		text := string(token)
		w.token = &text
		if other, twice := seen[text]; twice {
			return Manifest{}, fault.New(fault.Invalid, "cannot use the token file of tenant %q: tenant %q has the same token", w.Tenant, other).
				WithHint("give each worker a token of its own")
		}
		seen[text] = w.Tenant
	}
	return m, nil
}

// Parse reads a manifest's text: a JSON list of objects with exactly the members tenant, address and token_file.
func Parse(text []byte) (Manifest, error) {
	if len(text) > MaxManifest {
		return Manifest{}, fault.New(fault.Invalid, "it is larger than %d bytes", MaxManifest)
	}
	var items []json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&items); err != nil {
		return Manifest{}, malformed(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, fault.New(fault.Invalid, "there is something after the list, at byte %d", dec.InputOffset())
	}
	if items == nil {
		return Manifest{}, fault.New(fault.Invalid, "it is null and not a list").WithHint("write [] for no worker at all")
	}
	if len(items) > maxWorkers {
		return Manifest{}, fault.New(fault.Invalid, "it has %d entries; %d is the most", len(items), maxWorkers)
	}
	var m Manifest
	taken := map[string]int{}
	for i, item := range items {
		w, err := parseWorker(item)
		if err != nil {
			return Manifest{}, fault.Wrap(fault.Invalid, err, "entry %d", i+1).WithHint("%s", fault.HintOf(err))
		}
		for _, value := range []string{"tenant " + w.Tenant, "address " + w.Address.String(), "token_file " + w.TokenFile} {
			if first, twice := taken[value]; twice {
				return Manifest{}, fault.New(fault.Invalid, "entry %d: %s is also in entry %d", i+1, value, first)
			}
			taken[value] = i + 1
		}
		m.workers = append(m.workers, w)
	}
	return m, nil
}

func malformed(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fault.New(fault.Invalid, "malformed JSON at byte %d: %v", syntax.Offset, syntax)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.Invalid, "the JSON is empty or cut off").WithHint("write [] for no worker at all")
	}
	return fault.New(fault.Invalid, "it must be a list of objects: %v", err)
}

// parseWorker reads one entry. It goes through the object member by member, because a decoder would take the last of two
// equal names and ignore their case.
func parseWorker(item json.RawMessage) (Worker, error) {
	dec := json.NewDecoder(bytes.NewReader(item))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return Worker{}, fault.New(fault.Invalid, "it must be an object")
	}
	members := map[string]string{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return Worker{}, malformed(err)
		}
		key, _ := name.(string)
		switch key {
		case "tenant", "address", "token_file":
		default:
			return Worker{}, fault.New(fault.Invalid, "unknown member %.64q", key).WithHint("the members are tenant, address and token_file")
		}
		if _, twice := members[key]; twice {
			return Worker{}, fault.New(fault.Invalid, "%s is there twice", key)
		}
		value, err := dec.Token()
		if err != nil {
			return Worker{}, malformed(err)
		}
		text, ok := value.(string)
		if !ok {
			return Worker{}, fault.New(fault.Invalid, "%s must be a string", key)
		}
		members[key] = text
	}
	for _, key := range []string{"tenant", "address", "token_file"} {
		if members[key] == "" {
			return Worker{}, fault.New(fault.Invalid, "%s is missing", key)
		}
	}
	return newWorker(members["tenant"], members["address"], members["token_file"])
}

func newWorker(tenant, address, tokenFile string) (Worker, error) {
	if err := tenancy.ValidName(tenant); err != nil {
		return Worker{}, fault.Wrap(fault.Invalid, err, "tenant").WithHint("%s", fault.HintOf(err))
	}
	to, err := loopback(address)
	if err != nil {
		return Worker{}, fault.New(fault.Invalid, "address %.100q: %v", address, err)
	}
	if !filepath.IsAbs(tokenFile) || filepath.Clean(tokenFile) != tokenFile ||
		strings.ContainsFunc(tokenFile, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return Worker{}, fault.New(fault.Invalid, "token_file %.200q must be an absolute path without . and ..", tokenFile)
	}
	return Worker{Tenant: tenant, Address: to, TokenFile: tokenFile}, nil
}

// loopback reads a literal loopback address with a port, in its one canonical form: what is written in another way may be
// read in another way by somebody else.
func loopback(s string) (netip.AddrPort, error) {
	to, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.AddrPort{}, errors.New("it must be a literal address and a port, such as 127.0.0.1:9001 or [::1]:9001, without a name or leading zeros")
	}
	switch ip := to.Addr(); {
	case ip.Zone() != "":
		return netip.AddrPort{}, errors.New("it must not hold a zone")
	case ip.Is4In6():
		return netip.AddrPort{}, fmt.Errorf("write it as %s", netip.AddrPortFrom(ip.Unmap(), to.Port()))
	case !ip.IsLoopback():
		return netip.AddrPort{}, errors.New("it must be a loopback address (127.0.0.0/8 or [::1])")
	case to.Port() == 0:
		return netip.AddrPort{}, errors.New("its port must not be 0")
	case to.String() != s:
		return netip.AddrPort{}, fmt.Errorf("write it as %s", to)
	}
	return to, nil
}

// Workers returns the entries, in the manifest's order.
func (m Manifest) Workers() []Worker { return append([]Worker(nil), m.workers...) }

// RefuseOwn refuses a manifest with a worker at one of these addresses, which are the service's own: it would call itself.
func RefuseOwn(m Manifest, own ...string) error {
	for _, w := range m.workers {
		for _, address := range own {
			host, port, err := net.SplitHostPort(address)
			if err != nil || port != strconv.Itoa(int(w.Address.Port())) {
				continue
			}
			if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && (ip.IsUnspecified() || ip.Unmap() == w.Address.Addr()) {
				return fault.New(fault.Invalid, "the worker of tenant %q has the address of this service itself, %s", w.Tenant, address).
					WithHint("give it a port of its own")
			}
		}
	}
	return nil
}
