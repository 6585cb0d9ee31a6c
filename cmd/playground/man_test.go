package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"playground/cli"
)

// A manualItem is a command as playground(8) has it: its name, arguments and flags.
type manualItem struct {
	Arguments []string
	Flags     []string // "tenant NAME", "force"
}

// TestManual compares the commands with the manual page: the same commands, each with the same arguments and flags.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../../man/playground.8")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(&cli.Env{})
	want := map[string]manualItem{"completion": {Arguments: []string{"shell"}}} // cobra's own, added when it runs
	collect(root, want)
	if diff := cmp.Diff(want, manual(string(text))); diff != "" {
		t.Errorf("commands (-program +playground.8):\n%s", diff)
	}
	var global []string
	for _, match := range regexp.MustCompile(`(?m)^\.It Fl \w (?:Ar \w+ )?, Fl -(\S+)`).FindAllStringSubmatch(string(text), -1) {
		global = append(global, match[1])
	}
	flags := []string{"help", "version"} // likewise
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	slices.Sort(flags)
	slices.Sort(global)
	if diff := cmp.Diff(flags, global); diff != "" {
		t.Errorf("flags of every command (-program +playground.8):\n%s", diff)
	}
}

// collect adds the commands below cmd that a person may type.
func collect(cmd *cobra.Command, into map[string]manualItem) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden {
			continue
		}
		if sub.HasSubCommands() {
			collect(sub, into)
			continue
		}
		var item manualItem
		for _, word := range strings.Fields(sub.Use)[1:] {
			if word == strings.ToUpper(word) && !strings.HasPrefix(word, "-") && !strings.Contains(sub.Use, "--") {
				for _, name := range regexp.MustCompile(`[A-Z]+`).FindAllString(word, -1) { // "NAME[@FINGERPRINT]", "TENANT..."
					item.Arguments = append(item.Arguments, strings.ToLower(name))
				}
			}
		}
		sub.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				item.Flags = append(item.Flags, f.Name)
			}
		})
		slices.Sort(item.Flags)
		into[strings.TrimPrefix(sub.CommandPath(), "playground ")] = item
	}
}

// manual reads the lines that begin an item for a command: its words, then options, then arguments.
func manual(text string) map[string]manualItem {
	all := map[string]manualItem{}
	for _, match := range regexp.MustCompile(`(?m)^\.It Ic ([a-z -]+?)((?: (?:[A-Z]|\[).*)?)$`).FindAllStringSubmatch(text, -1) {
		var item manualItem
		rest := match[2]
		for _, flag := range regexp.MustCompile(`Fl -(\S+)(?: Ar \S+)?`).FindAllStringSubmatch(rest, -1) {
			item.Flags = append(item.Flags, flag[1])
		}
		rest = regexp.MustCompile(`Fl -\S+(?: Ar \S+)?`).ReplaceAllString(rest, "")
		for _, argument := range regexp.MustCompile(`Ar ([a-z]+)`).FindAllStringSubmatch(rest, -1) {
			item.Arguments = append(item.Arguments, argument[1])
		}
		slices.Sort(item.Flags)
		all[match[1]] = item
	}
	return all
}
