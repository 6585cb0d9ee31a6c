package demo

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"playground/faculty/bundle"
)

// firstConfig adds to the configuration of a new state folder: a model that needs no network, room for one worker, and a folder
// for the data plane, whose file tools a sandboxed run is not given.
func (d *demo) firstConfig(dir, text string) (string, error) {
	plane := filepath.Join(dir, "plane")
	if err := os.Mkdir(plane, 0o700); err != nil {
		return "", err
	}
	d.settings = []string{`work.provider = "echo"   a model inside playgroundd, for trying things without a network`, `work.capacity = 1   one confined worker at a time`}
	return strings.Replace(text, "[work]\n", fmt.Sprintf("[work]\nprovider = \"echo\"\ncapacity = 1\nstop_grace = \"5s\"\ndata_dir = %q\n", plane), 1), nil
}

// secondConfig changes the configuration for the second act: a model that plays a script and, if the faculty could be built, a
// worker, and the gateway in the place of the sandbox's tools.
func (d *demo) secondConfig() error {
	text, err := os.ReadFile(d.suite.ConfigPath)
	if err != nil {
		return err
	}
	steps, err := script()
	if err != nil {
		return err
	}
	path, err := d.keep("script.json", steps)
	if err != nil {
		return err
	}
	config := strings.Replace(string(text), "provider = \"echo\"\n", fmt.Sprintf("provider = \"scripted\"\nscript = %q\n", path), 1)
	d.settings = []string{`work.provider = "scripted"   a model that plays a script, slowly enough to look at`}
	if d.faculty {
		if config, err = d.workers(config); err != nil {
			return err
		}
		d.settings = append(d.settings, `faculty.definitions = "workers.json"   one worker, in `+third+`'s sandbox`, `http.catalogue = "workers"   /mcp leads to each tenant's own worker`)
	}
	_, err = d.keep(filepath.Base(d.suite.ConfigPath), []byte(config))
	return err
}

// script is what the model of the second act "says": a note at each step.
func script() ([]byte, error) {
	const steps, pause = 48, 400 * time.Millisecond // the tier's runs have 50 turns
	var all []any
	for i := range steps {
		all = append(all, map[string]any{"delay_ms": pause.Milliseconds(),
			"tool_calls": []any{map[string]any{"name": "record_note", "args": map[string]string{"text": fmt.Sprintf("note %d", i+1)}}}})
	}
	return json.Marshal(all)
}

// workers defines the faculty's worker and the way to it.
func (d *demo) workers(config string) (string, error) {
	address, err := freePort() // where a tenant shares the host's network, it must be free there
	if err != nil {
		return "", err
	}
	token, err := d.keep("worker.token", []byte(rand.Text()+rand.Text()+"\n"))
	if err != nil {
		return "", err
	}
	definitions, err := json.Marshal(map[string]any{"workers": []any{map[string]any{
		"tenant": third, "program": bundle.Home(third, notebook) + "/" + notebook, "address": address, "token_file": token,
		"args": []string{"--listen", "{address}", "--token-file", "{token_file}"},
	}}})
	if err != nil {
		return "", err
	}
	manifest, err := json.Marshal([]map[string]string{{"tenant": third, "address": address, "token_file": token}})
	if err != nil {
		return "", err
	}
	workers, err := d.keep("workers.json", definitions)
	if err != nil {
		return "", err
	}
	list, err := d.keep("manifest.json", manifest)
	if err != nil {
		return "", err
	}
	config = strings.Replace(config, "[http]\n", "[http]\ncatalogue = \"workers\"\n", 1)
	return config + fmt.Sprintf("\n[faculty]\ndefinitions = %q\n\n[gateway]\nmanifest = %q\n", workers, list), nil
}

// keep writes a private file of the state folder and returns its path.
func (d *demo) keep(name string, data []byte) (string, error) {
	path := filepath.Join(d.suite.Dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("cannot write %s: %w", name, err)
	}
	return path, nil
}
