package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A manifest is what pkg(8) keeps of a package. It is written as JSON, which UCL, pkg's own language, contains. The keys
// are libpkg's (pkg-create(8), section MANIFEST FILE DETAILS).
type manifest struct {
	Name         string            `json:"name"`
	Origin       string            `json:"origin"`
	Version      string            `json:"version"`
	Comment      string            `json:"comment"`
	Maintainer   string            `json:"maintainer"`
	WWW          string            `json:"www"`
	ABI          string            `json:"abi"`
	Arch         string            `json:"arch"` // the same for pkg before 1.2
	Prefix       string            `json:"prefix"`
	FlatSize     int64             `json:"flatsize"`
	LicenseLogic string            `json:"licenselogic"`
	Licenses     []string          `json:"licenses"`
	Desc         string            `json:"desc"`
	Categories   []string          `json:"categories"`
	Users        []string          `json:"users"`
	Groups       []string          `json:"groups"`
	Annotations  map[string]string `json:"annotations"`
	Messages     []message         `json:"messages"`

	// What the compact manifest, which repositories collect, leaves out.
	Files       map[string]string    `json:"files,omitempty"`       // path to checksum
	Directories map[string]directory `json:"directories,omitempty"` // path to attributes
	Scripts     map[string]string    `json:"scripts,omitempty"`
}

// A directory is a folder that the package makes; pkg removes it at a deinstall only when it is empty.
type directory struct {
	Uname string `json:"uname"`
	Gname string `json:"gname"`
	Perm  string `json:"perm"`
}

// A message is shown when the package was installed, upgraded or removed.
type message struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// compact returns the manifest without files, folders and scripts.
func (m manifest) compact() manifest {
	m.Files, m.Directories, m.Scripts = nil, nil, nil
	return m
}

// encode returns the manifest as one line of JSON; the encoder sorts the keys of maps, so equal manifests are equal bytes.
func (m manifest) encode() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // pkg shows a message as it is
	if err := encoder.Encode(m); err != nil {
		return nil, fmt.Errorf("cannot write the manifest: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// sumKind is libpkg's name for a SHA-256 in hexadecimal, in front of each checksum.
const sumKind = "1$"

// percent escapes text where pkg decodes %XX: descriptions and scripts.
func percent(text string) string { return strings.ReplaceAll(text, "%", "%25") }

// A platform is one kind of FreeBSD host.
type platform struct {
	goarch string
	major  int
}

// abi returns the platform's names: now, and in the form that pkg used before.
func (p platform) abi() (abi, arch string) {
	name, legacy := "amd64", "x86:64"
	if p.goarch == "arm64" {
		name, legacy = "aarch64", "aarch64:64"
	}
	return fmt.Sprintf("FreeBSD:%d:%s", p.major, name), fmt.Sprintf("freebsd:%d:%s", p.major, legacy)
}

// newManifest returns what is the same in every build.
func newManifest(version string, p platform) manifest {
	abi, arch := p.abi()
	return manifest{
		Name: "playground", Origin: "sysutils/playground", Version: version,
		Comment:    "Sandboxes for AI agents in jails, over MCP",
		Maintainer: "ports@FreeBSD.org", WWW: "https://playground.example.org/",
		ABI: abi, Arch: arch, Prefix: prefix,
		LicenseLogic: "single", Licenses: []string{"BSD2CLAUSE"},
		Categories: []string{"sysutils"},
	}
}

// parseMessages reads a pkg-message file: a list of objects, each with a type and a here-document. It is the form of UCL
// that the port uses, and no more of it.
func parseMessages(text string) ([]message, error) {
	var all []message
	var kind string
	var body []string
	inside := false
	for number, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch word := strings.TrimSpace(line); {
		case inside && line == "EOM":
			all = append(all, message{kind, strings.Join(body, "\n")})
			kind, body, inside = "", nil, false
		case inside:
			body = append(body, line)
		case word == "[" || word == "]" || word == "{" || word == "}" || word == "},":
		case word == "type: install" || word == "type: upgrade" || word == "type: remove":
			kind = strings.TrimPrefix(word, "type: ")
		case word == "message: <<EOM" && kind != "":
			inside = true
		default:
			return nil, fmt.Errorf("line %d: cannot understand %q in a message file", number+1, line)
		}
	}
	if inside || len(all) == 0 {
		return nil, fmt.Errorf("cannot read the messages: no complete one")
	}
	return all, nil
}
