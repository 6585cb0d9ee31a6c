package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"playground/fault"
	"playground/tenancy"
	"playground/workapi"
)

// memberDID begins the DID of a tenant.
const memberDID = "did:sync:user:"

// works calls f with a client of /v1 over the operator's socket.
func (e *Env) works(f func(*workapi.Client) error) error {
	c, err := e.load()
	if err != nil {
		return err
	}
	client := workapi.NewClient(c.OperatorSocket())
	defer client.Disconnect()
	return f(client)
}

// didOf returns the DID of a tenant, "" for none.
func didOf(member string) (string, error) {
	if member == "" {
		return "", nil
	}
	if err := tenancy.ValidName(member); err != nil {
		return "", err
	}
	return memberDID + member, nil
}

// printList prints a list: as JSON with its envelope, as a line for each of its items, or, for a person, with show.
func printList[T any](e *Env, list any, items []T, show func() error) error {
	switch {
	case e.Stream:
		for _, item := range items {
			if err := e.printJSON(item); err != nil {
				return err
			}
		}
		return nil
	case e.JSON:
		return e.printJSON(list)
	}
	return show()
}

// What records hold was written by agents. On its way to a terminal nothing of it may move the cursor, change colours or
// titles, or reorder a line: each character that is not plainly visible is shown as an escape.

// hidden reports whether a character must not reach a terminal as it is: controls, and formats such as those that reverse
// the direction of writing.
func hidden(c rune) bool {
	return unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp)
}

// safe returns text as one line that is safe to print.
func safe(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, c := range text { // an invalid byte reads as U+FFFD, which is visible
		if hidden(c) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(c), "'"))
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// short is safe, cut to at most n characters.
func short(text string, n int) string {
	text = safe(text)
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:max(0, n-3)]) + "..."
}

// lines returns text as lines that are safe to print.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(strings.TrimRight(text, " \r\n")) {
		all = append(all, safe(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")))
	}
	return all
}

// flat returns text with its line breaks and tabs as spaces, to be shown on one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// safeJSON escapes in a JSON document what only a string can hold and a terminal must not see. The document means the same.
func safeJSON(document []byte) []byte {
	if utf8.Valid(document) && !strings.ContainsFunc(string(document), func(c rune) bool { return c != '\n' && hidden(c) }) {
		return document
	}
	var b strings.Builder
	for _, c := range string(document) {
		switch {
		case c == '\n' || !hidden(c):
			b.WriteRune(c)
		case c > 0xffff:
			high, low := (c-0x10000)>>10+0xd800, (c-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return []byte(b.String())
}

// objectOf reads a JSON object that was given on the command line.
func objectOf(flag, text string) (map[string]any, error) {
	object := map[string]any{}
	if text == "" {
		return object, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil || object == nil || decoder.More() {
		return nil, fault.New(fault.Invalid, "%s is not a JSON object: %.80q", flag, text).WithHint(`such as '{"topic":"note"}', in quotes for the shell`)
	}
	return object, nil
}

// usd shows an amount of money.
func usd(amount float64) string { return fmt.Sprintf("$%.4f", amount) }

// or returns text, or other if it is empty.
func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// deref returns what p points to, or the zero value.
func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
