package main

import (
	"embed"
	"fmt"
	"strings"
)

// The scripts are files of their own, so that shellcheck reads them.
//
//go:embed scripts/*.sh
var scriptFiles embed.FS

// scripts returns what pkg runs, by the names it has for them. They honour PKG_ROOTDIR (pkg -r), and never start or stop
// services, touch rc.conf or load modules: that is for the administrator to decide.
func scripts(entries []entry) (map[string]string, error) {
	var samples []string
	for _, e := range entries {
		if e.Sample {
			samples = append(samples, e.Path)
		}
	}
	all := make(map[string]string)
	for _, name := range []string{"pre-install", "post-install", "pre-deinstall"} {
		text, err := scriptFiles.ReadFile("scripts/" + name + ".sh")
		if err != nil {
			return nil, fmt.Errorf("cannot read script %s: %w", name, err)
		}
		script := strings.ReplaceAll(string(text), "@SAMPLES@", strings.Join(samples, " "))
		if err := plainText(script); err != nil {
			return nil, fmt.Errorf("script %s: %w", name, err)
		}
		all[name] = percent(script)
	}
	return all, nil
}

// plainText refuses what pkg's parser would change: other bytes than ASCII, and "$$", which UCL reads as one dollar sign.
func plainText(text string) error {
	for i, r := range text {
		if r > '~' || r < ' ' && r != '\n' && r != '\t' {
			return fmt.Errorf("byte %d is %q: want plain ASCII", i, r)
		}
	}
	if strings.Contains(text, "$$") {
		return fmt.Errorf("it holds two dollar signs in a row, which pkg would read as one")
	}
	return nil
}
