package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"playground/fault"
)

// The bounds of a rule and of a hook.
const (
	maxBody         = 64 << 10 // bytes of JSON
	maxText         = 4 << 10  // bytes of what a hook says
	maxFires        = 100      // of one hook in one run
	defaultMaxFires = 3
	defaultSpace    = "default"
)

var (
	names      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	namespaces = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)
	blanks     = regexp.MustCompile(`\$\{[^}]*\}?`)
)

// ParseRule reads the body of a permission_rule record: name, expression and action, and, where they are not the defaults,
// namespace ("default"), priority (0) and enabled (true). The error is a fault.Invalid that names the field.
func ParseRule(body json.RawMessage) (Rule, error) {
	f, err := fieldsOf(body, "a permission rule")
	if err != nil {
		return Rule{}, err
	}
	f.constant("kind", "core.permission_rule.v1", "core.engine.config.v1")
	f.constant("topic", "permission_rule")
	rule := Rule{
		Name:       f.name(),
		Namespace:  f.namespace(),
		Expression: f.expression("expression", Permission),
		Action:     Action(f.text("action", "")),
		Priority:   f.number("priority", 0),
		Enabled:    f.flag("enabled", true),
	}
	if rule.Action != Allow && rule.Action != Deny {
		f.refuse("action is %q, not allow or deny", printable(shortened(string(rule.Action))))
	}
	if err := f.end(); err != nil {
		return Rule{}, err
	}
	return rule, nil
}

// A hook adds an observation, and can do nothing else. These fields would promise more, so they are refused with the reason.
var notOfHooks = []string{"priority", "action", "suppress", "replace", "order", "instead_of"}

// ParseHook reads the body of a core.hook.v1 record: name, when and text, and, where they are not the defaults, namespace
// ("default"), max_fires_per_run (3) and enabled (true). The error is a fault.Invalid that names the field.
func ParseHook(body json.RawMessage) (Hook, error) {
	f, err := fieldsOf(body, "a hook")
	if err != nil {
		return Hook{}, err
	}
	for _, name := range notOfHooks {
		if _, given := f.left[name]; given {
			return Hook{}, fault.New(fault.Invalid, "a hook has no field %q: it adds an observation, and cannot order, replace or suppress another", name).
				WithHint("leave %s out; to refuse a call, write a permission rule", name)
		}
	}
	f.constant("kind", "core.hook.v1", "core.engine.config.v1")
	f.constant("topic", "hook")
	hook := Hook{
		Name:      f.name(),
		Namespace: f.namespace(),
		When:      f.expression("when", Observer),
		Text:      f.text("text", ""),
		MaxFires:  int(f.number("max_fires_per_run", defaultMaxFires)),
		Enabled:   f.flag("enabled", true),
	}
	switch {
	case strings.TrimSpace(hook.Text) == "":
		f.refuse("text is empty: it is what the model is told")
	case len(hook.Text) > maxText:
		f.refuse("text has %d bytes, at most %d are allowed", len(hook.Text), maxText)
	}
	for _, blank := range blanks.FindAllString(hook.Text, -1) {
		if blank != "${tool}" && blank != "${status}" {
			f.refuse("text has %q, but only ${tool} and ${status} are filled in", printable(shortened(blank)))
		}
	}
	if hook.MaxFires < 1 || hook.MaxFires > maxFires {
		f.refuse("max_fires_per_run is %d, not 1 to %d", hook.MaxFires, maxFires)
	}
	if err := f.end(); err != nil {
		return Hook{}, err
	}
	return hook, nil
}

// fields are what is left to read of a body, and the first thing that is wrong with it.
type fields struct {
	what string
	left map[string]json.RawMessage
	err  error
}

// fieldsOf splits a JSON object. Names are compared exactly and may not repeat, so that no two readers of one body disagree.
func fieldsOf(body json.RawMessage, what string) (*fields, error) {
	if len(body) > maxBody {
		return nil, fault.New(fault.Invalid, "%s has %d bytes, at most %d are allowed", what, len(body), maxBody)
	}
	if !utf8.Valid(body) {
		return nil, fault.New(fault.Invalid, "%s is not UTF-8", what)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, fault.New(fault.Invalid, "%s is not a JSON object", what)
	}
	left := map[string]json.RawMessage{}
	for decoder.More() {
		var value json.RawMessage
		token, err := decoder.Token()
		name, isName := token.(string)
		if err == nil && isName {
			err = decoder.Decode(&value)
		}
		if err != nil || !isName {
			return nil, fault.New(fault.Invalid, "%s is not a JSON object", what)
		}
		if _, twice := left[name]; twice {
			return nil, fault.New(fault.Invalid, "%s has the field %q twice", what, printable(shortened(name)))
		}
		left[name] = value
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return nil, fault.New(fault.Invalid, "%s is not a JSON object", what)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "%s is followed by something else", what)
	}
	return &fields{what: what, left: left}, nil
}

// refuse keeps the first reason why the body is bad.
func (f *fields) refuse(format string, args ...any) {
	if f.err == nil {
		f.err = fault.New(fault.Invalid, format, args...)
	}
}

// end returns what was wrong, fields that nobody asked for included.
func (f *fields) end() error {
	if f.err != nil || len(f.left) == 0 {
		return f.err
	}
	var unknown []string
	for name := range f.left {
		unknown = append(unknown, strconv.Quote(printable(shortened(name))))
	}
	slices.Sort(unknown)
	return fault.New(fault.Invalid, "%s has no field %s", f.what, strings.Join(unknown[:min(len(unknown), 5)], ", "))
}

// read decodes one field into value, and leaves value alone where the field is missing.
func (f *fields) read(name, kind string, value any) {
	raw, given := f.left[name]
	if !given {
		return
	}
	delete(f.left, name)
	if string(raw) == "null" || json.Unmarshal(raw, value) != nil {
		f.refuse("%s is not %s", name, kind)
	}
}

func (f *fields) text(name, otherwise string) string {
	f.read(name, "a text", &otherwise)
	return otherwise
}

func (f *fields) number(name string, otherwise int64) int64 {
	f.read(name, "a whole number", &otherwise)
	const exact = 1 << 53
	if otherwise < -exact || otherwise > exact {
		f.refuse("%s is beyond what JSON numbers hold exactly", name)
	}
	return otherwise
}

func (f *fields) flag(name string, otherwise bool) bool {
	f.read(name, "true or false", &otherwise)
	return otherwise
}

// constant reads a field that may be missing, and otherwise says one of values.
func (f *fields) constant(name string, values ...string) {
	if got := f.text(name, values[0]); !slices.Contains(values, got) {
		f.refuse("%s is %q, not %q", name, printable(shortened(got)), values[0])
	}
}

func (f *fields) name() string {
	name := f.text("name", "")
	switch {
	case name == "":
		f.refuse("name is missing: %s is replaced and switched off by its name", f.what)
	case !names.MatchString(name):
		f.refuse("name %q is not 1 to 64 letters, digits, dots, underscores or hyphens, with a letter or digit first", printable(shortened(name)))
	}
	return name
}

func (f *fields) namespace() string {
	namespace := f.text("namespace", defaultSpace)
	if !namespaces.MatchString(namespace) {
		f.refuse("namespace %q is not 1 to 128 letters, digits or . _ : / -, with a letter or digit first", printable(shortened(namespace)))
	}
	return namespace
}

// expression reads CEL and compiles it.
func (f *fields) expression(name string, in Context) string {
	expr := f.text(name, "")
	if f.err != nil {
		return ""
	}
	if _, _, err := compile(expr, in); err != nil {
		refused := fault.Wrap(fault.Invalid, err, "%s", name)
		refused.Hint = fault.HintOf(err)
		f.err = refused
	}
	return expr
}

// shortened is what an error shows of a text that somebody sent.
func shortened(text string) string {
	const most = 80
	for i := range text {
		if i > most {
			return text[:i] + "..."
		}
	}
	return text
}
