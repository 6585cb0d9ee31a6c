package config

import (
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
)

// Faculty says which faculty workers a host keeps.
type Faculty struct {
	Definitions string // the file that defines them; "" = there are none
	Bundles     string // the folder of cohorts
}

type rawFaculty struct {
	Definitions string `toml:"definitions"`
	Bundles     string `toml:"bundles"`
}

func (v rawFaculty) check(c *checker) {
	if v.Definitions != "" {
		absolute(c, "faculty.definitions", v.Definitions)
	}
	if v.Bundles != "" {
		absolute(c, "faculty.bundles", v.Bundles)
	}
}

func (v rawFaculty) build(stateDir string) Faculty {
	if v.Bundles == "" {
		v.Bundles = filepath.Join(stateDir, "bundles")
	}
	return Faculty(v)
}

// facultySocket is the socket's name in the run folder.
const facultySocket = "facultyd.sock"

// FacultySocket is where playground-facultyd listens.
func (c Config) FacultySocket() string { return filepath.Join(c.Host.RunDir, facultySocket) }

// FacultyDir is playground-facultyd's own folder.
func (c Config) FacultyDir() string { return filepath.Join(c.Host.StateDir, "faculty") }

// LooseFacultySocket is FacultySocket for a file that does not load, so that a mistake in it never keeps an operator from
// stopping what runs: of the whole file only host.run_dir counts. Where not even that can be read it is the run folder that
// "playground up" makes beside the file, and else the default.
func LooseFacultySocket(path string) string {
	var v struct {
		Host struct {
			RunDir string `toml:"run_dir"`
		} `toml:"host"`
	}
	dir := defaults().Host.RunDir
	if beside := filepath.Join(filepath.Dir(path), "run"); isDir(beside) {
		dir = beside
	}
	if text, err := os.ReadFile(path); err == nil && toml.Unmarshal(text, &v) == nil && filepath.IsAbs(v.Host.RunDir) {
		dir = v.Host.RunDir
	}
	return filepath.Join(dir, facultySocket)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
