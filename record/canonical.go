package record

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep arrays and objects nest.
const maxDepth = 64

// Canonicalize returns the JSON text in as RFC 8785 (JCS) writes it: no white space, members sorted by the UTF-16 code units of
// their names, numbers as ECMAScript prints them, only the escapes that JSON demands. What has no single meaning everywhere is
// refused: duplicate names, invalid UTF-8, lone surrogates, numbers that overflow, integers that a double would change, and more
// than 64 levels. The errors say at which byte.
func Canonicalize(in []byte) ([]byte, error) {
	c := canonicalizer{in: in}
	c.space()
	out, err := c.value(make([]byte, 0, len(in)), 0)
	if err != nil {
		return nil, err
	}
	if c.space(); c.at < len(in) {
		return nil, c.errorf("more after the value")
	}
	return out, nil
}

type canonicalizer struct {
	in []byte
	at int
}

func (c *canonicalizer) errorf(format string, args ...any) error {
	return fmt.Errorf("invalid JSON at byte %d: %s", c.at, fmt.Sprintf(format, args...))
}

func (c *canonicalizer) space() {
	for c.at < len(c.in) && strings.IndexByte(" \t\r\n", c.in[c.at]) >= 0 {
		c.at++
	}
}

// peek returns the next byte, or 0 at the end; a real 0 is never valid where it is asked for.
func (c *canonicalizer) peek() byte {
	if c.at < len(c.in) {
		return c.in[c.at]
	}
	return 0
}

func (c *canonicalizer) value(out []byte, depth int) ([]byte, error) {
	switch b := c.peek(); {
	case b == '{':
		return c.object(out, depth+1)
	case b == '[':
		return c.array(out, depth+1)
	case b == '"':
		text, err := c.text()
		if err != nil {
			return nil, err
		}
		return appendText(out, text), nil
	case b == '-' || '0' <= b && b <= '9':
		return c.number(out)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(c.in[c.at:], []byte(word)) {
			c.at += len(word)
			return append(out, word...), nil
		}
	}
	if c.at == len(c.in) {
		return nil, c.errorf("unexpected end")
	}
	return nil, c.errorf("no value begins with %q", c.in[c.at:c.at+1])
}

func (c *canonicalizer) array(out []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, c.errorf("more than %d levels", maxDepth)
	}
	c.at++
	out = append(out, '[')
	if c.space(); c.peek() == ']' {
		c.at++
		return append(out, ']'), nil
	}
	for {
		c.space()
		var err error
		if out, err = c.value(out, depth); err != nil {
			return nil, err
		}
		c.space()
		switch c.peek() {
		case ',':
			out = append(out, ',')
		case ']':
			c.at++
			return append(out, ']'), nil
		default:
			return nil, c.errorf(`want "," or "]"`)
		}
		c.at++
	}
}

// A member is one name and value of an object; units is the name as RFC 8785 section 3.2.3 compares it.
type member struct {
	name  string
	units []uint16
	value []byte
}

func (c *canonicalizer) object(out []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, c.errorf("more than %d levels", maxDepth)
	}
	members, err := c.members(depth)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.units, b.units) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			if m.name == members[i-1].name {
				return nil, c.errorf("member %.64q is given twice", m.name)
			}
			out = append(out, ',')
		}
		out = append(appendText(out, m.name), ':')
		out = append(out, m.value...)
	}
	return append(out, '}'), nil
}

// members reads an object up to and with its "}".
func (c *canonicalizer) members(depth int) ([]member, error) {
	c.at++
	var members []member
	if c.space(); c.peek() == '}' {
		c.at++
		return nil, nil
	}
	for {
		if c.space(); c.peek() != '"' {
			return nil, c.errorf("want the name of a member")
		}
		name, err := c.text()
		if err != nil {
			return nil, err
		}
		if c.space(); c.peek() != ':' {
			return nil, c.errorf(`want ":"`)
		}
		c.at++
		c.space()
		value, err := c.value(nil, depth)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, utf16.Encode([]rune(name)), value})
		c.space()
		end := c.peek()
		if end != ',' && end != '}' {
			return nil, c.errorf(`want "," or "}"`)
		}
		if c.at++; end == '}' {
			return members, nil
		}
	}
}

// text reads a string and returns what it means.
func (c *canonicalizer) text() (string, error) {
	c.at++
	var out []byte
	for c.at < len(c.in) {
		switch b := c.in[c.at]; {
		case b == '"':
			c.at++
			return string(out), nil
		case b == '\\':
			var err error
			if out, err = c.escape(out); err != nil {
				return "", err
			}
		case b < 0x20:
			return "", c.errorf("a control character must be escaped")
		case b < utf8.RuneSelf:
			out = append(out, b)
			c.at++
		default:
			r, n := utf8.DecodeRune(c.in[c.at:])
			if r == utf8.RuneError && n == 1 {
				return "", c.errorf("not UTF-8")
			}
			out = append(out, c.in[c.at:c.at+n]...)
			c.at += n
		}
	}
	return "", c.errorf("unexpected end of a string")
}

// escape reads one escape, or the two that make up a surrogate pair.
func (c *canonicalizer) escape(out []byte) ([]byte, error) {
	if c.at+1 >= len(c.in) {
		return nil, c.errorf("unexpected end of a string")
	}
	if b := c.in[c.at+1]; b != 'u' {
		i := strings.IndexByte(`"\/bfnrt`, b)
		if i < 0 {
			return nil, c.errorf("unknown escape")
		}
		c.at += 2
		return append(out, "\"\\/\b\f\n\r\t"[i]), nil
	}
	r, err := c.unit()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(r) {
		if !bytes.HasPrefix(c.in[c.at:], []byte(`\u`)) {
			return nil, c.errorf("a surrogate without its other half")
		}
		low, err := c.unit()
		if err != nil {
			return nil, err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return nil, c.errorf("a surrogate without its other half")
		}
	}
	return utf8.AppendRune(out, r), nil
}

// unit reads \uXXXX.
func (c *canonicalizer) unit() (rune, error) {
	if c.at+6 > len(c.in) {
		return 0, c.errorf("unexpected end of a string")
	}
	n := rune(0)
	for _, b := range c.in[c.at+2 : c.at+6] {
		switch {
		case '0' <= b && b <= '9':
			n = n<<4 | rune(b-'0')
		case 'a' <= b|0x20 && b|0x20 <= 'f':
			n = n<<4 | rune(b|0x20-'a'+10)
		default:
			return 0, c.errorf("want four hexadecimal digits")
		}
	}
	c.at += 6
	return n, nil
}

// appendText writes a string with the escapes of RFC 8785 section 3.2.2.2.
func appendText(out []byte, text string) []byte {
	out = append(out, '"')
	for i := range len(text) {
		switch b := text[i]; {
		case b == '"' || b == '\\':
			out = append(out, '\\', b)
		case b >= 0x20:
			out = append(out, b)
		case strings.IndexByte("\b\f\n\r\t", b) >= 0:
			out = append(out, '\\', "bfnrt"[strings.IndexByte("\b\f\n\r\t", b)])
		default:
			out = fmt.Appendf(out, `\u%04x`, b)
		}
	}
	return append(out, '"')
}

// number reads a number by the grammar of RFC 8259 section 6.
func (c *canonicalizer) number(out []byte) ([]byte, error) {
	start := c.at
	if c.peek() == '-' {
		c.at++
	}
	if first := c.at; c.digits() == 0 || c.in[first] == '0' && c.at-first > 1 {
		return nil, c.errorf("not a number")
	}
	integer := true
	if c.peek() == '.' {
		integer = false
		if c.at++; c.digits() == 0 {
			return nil, c.errorf("a digit must follow the point")
		}
	}
	if c.peek()|0x20 == 'e' {
		integer = false
		if c.at++; c.peek() == '+' || c.peek() == '-' {
			c.at++
		}
		if c.digits() == 0 {
			return nil, c.errorf("a digit must follow the exponent")
		}
	}
	text := string(c.in[start:c.at])
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, c.errorf("number %.40s is out of range", text)
	}
	end := appendNumber(nil, f)
	if integer && !sameInteger(text, string(end)) {
		return nil, c.errorf("integer %.40s would not survive as a double; write it as a string", text)
	}
	return append(out, end...), nil
}

func (c *canonicalizer) digits() (n int) {
	for '0' <= c.peek() && c.peek() <= '9' {
		c.at++
		n++
	}
	return n
}

// sameInteger reports whether the canonical number denotes the integer that was written. Above 2^53 it may be another one even
// where the double is exact: ECMAScript prints 2^60 as 1152921504606847000, and whoever reads that as an integer is misled.
func sameInteger(written, canonical string) bool {
	if written == canonical || written == "-0" {
		return true
	}
	if len(written) > 400 { // more digits than the largest double has
		return false
	}
	a, okA := new(big.Rat).SetString(written)
	b, okB := new(big.Rat).SetString(canonical)
	return okA && okB && a.Cmp(b) == 0
}

// appendNumber writes a finite double as ECMAScript's Number::toString does (ECMA-262 section 6.1.6.1.20).
func appendNumber(out []byte, f float64) []byte {
	if f == 0 { // -0 too
		return append(out, '0')
	}
	if f < 0 {
		out, f = append(out, '-'), math.Abs(f)
	}
	if 1e-6 <= f && f < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64)
	}
	text := strconv.AppendFloat(nil, f, 'e', -1, 64) // d.ddde-07: ECMAScript has no leading zero in the exponent
	mantissa, exponent, _ := bytes.Cut(text, []byte("e"))
	out = append(append(out, mantissa...), 'e', exponent[0])
	return append(out, bytes.TrimLeft(exponent[1:], "0")...)
}
