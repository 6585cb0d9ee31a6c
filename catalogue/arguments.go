package catalogue

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"playground/fault"
)

// A kind is the type of one argument.
type kind string

const (
	text    kind = "string"
	integer kind = "integer"
	texts   kind = "object" // string values by name
)

// A param describes one argument of a tool. The schema that clients see and the check of what they send both come from
// it, so they cannot disagree.
type param struct {
	name     string
	kind     kind
	required bool
	min, max int64 // of an integer
	about    string
}

// arguments holds the checked arguments of one call, by name: string, int64 or map[string]string.
type arguments map[string]any

// text returns a text argument, or "".
func (a arguments) text(name string) string {
	s, _ := a[name].(string)
	return s
}

// optionalText tells a text that is empty from one that was not given.
func (a arguments) optionalText(name string) (string, bool) {
	s, ok := a[name].(string)
	return s, ok
}

// integer returns an integer argument, or 0.
func (a arguments) integer(name string) int64 {
	n, _ := a[name].(int64)
	return n
}

// arguments checks the arguments of a call. Names are matched exactly. A null counts as not given, because some clients
// send every argument they know of.
func (t tool) arguments(raw json.RawMessage) (arguments, error) {
	given := map[string]json.RawMessage{}
	if raw = bytes.TrimSpace(raw); len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, fault.New(fault.Invalid, "the arguments of %s must be an object", t.name).WithHint("%s", t.usage())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(t.params, func(p param) bool { return p.name == name }) {
			return nil, fault.New(fault.Invalid, "unknown argument %.100q", name).WithHint("%s", t.usage())
		}
	}
	args := arguments{}
	for _, p := range t.params {
		raw, ok := given[p.name]
		if !ok || string(raw) == "null" {
			if p.required {
				return nil, fault.New(fault.Invalid, "argument %q is missing", p.name).WithHint("%s", t.usage())
			}
			continue
		}
		value, err := p.value(raw)
		if err != nil {
			return nil, err
		}
		args[p.name] = value
	}
	return args, nil
}

func (p param) value(raw json.RawMessage) (any, error) {
	if halfSurrogate(raw) {
		return nil, fault.New(fault.Invalid, "argument %q holds one half of a surrogate pair, which is no text", p.name).
			WithHint("send bytes that are not text with write, as base64")
	}
	switch p.kind {
	case text:
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fault.New(fault.Invalid, "argument %q must be a string", p.name).WithHint("%s", p.about)
		}
		return s, nil
	case integer:
		n, ok := wholeNumber(raw)
		if !ok || n < p.min || n > p.max {
			return nil, fault.New(fault.Invalid, "argument %q must be a whole number from %d to %d", p.name, p.min, p.max).WithHint("%s", p.about)
		}
		return n, nil
	case texts:
		var m map[string]string
		if err := json.Unmarshal(raw, &m); err != nil || raw[0] != '{' || bytes.Contains(raw, []byte("null")) && hasNull(raw) {
			return nil, fault.New(fault.Invalid, "argument %q must be an object with string values", p.name).WithHint("%s", p.about)
		}
		return m, nil
	}
	return nil, fault.New(fault.Internal, "argument %q has no kind", p.name)
}

// wholeNumber reads a JSON number exactly; forms like 5.0 and 1e3 are whole too.
func wholeNumber(raw json.RawMessage) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	var f float64
	if json.Unmarshal(raw, &f) != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// halfSurrogate reports whether a JSON string holds an escape like \ud800 without its other half. Decoders replace it
// silently, and a file would be written with other content than was sent.
func halfSurrogate(raw json.RawMessage) bool {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first, ok := escapedUnit(raw[i:])
		i++ // past the escaped byte, which may be a backslash
		if !ok || !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := escapedUnit(raw[i+5:])
		if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

// escapedUnit is the UTF-16 unit of the escape \uXXXX at p's beginning, if there is one.
func escapedUnit(p []byte) (rune, bool) {
	if len(p) < 6 || p[0] != '\\' || p[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p[2:6]), 16, 16)
	return rune(n), err == nil
}

// hasNull reports whether a member is null, which encoding/json takes for an empty string.
func hasNull(raw json.RawMessage) bool {
	var m map[string]*string
	if json.Unmarshal(raw, &m) != nil {
		return true
	}
	for _, value := range m {
		if value == nil {
			return true
		}
	}
	return false
}

// usage is the tool's arguments in one line.
func (t tool) usage() string {
	var b strings.Builder
	b.WriteString(t.name + " takes (")
	for i, p := range t.params {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.name)
		if !p.required {
			b.WriteString("?")
		}
	}
	return b.String() + ")"
}

// inputSchema is the JSON schema of the tool's arguments.
func (t tool) inputSchema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, p := range t.params {
		property := map[string]any{"type": string(p.kind), "description": p.about}
		switch p.kind {
		case integer:
			property["minimum"] = p.min
			if p.max < math.MaxInt64 {
				property["maximum"] = p.max
			}
		case texts:
			property["additionalProperties"] = map[string]any{"type": "string"}
		case text:
		}
		properties[p.name] = property
		if p.required {
			required = append(required, p.name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}
