package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON writes v as one JSON document: indented, or with -o stream-json on a line of its own.
func (e *Env) printJSON(v any) error {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	if !e.Stream {
		encoder.SetIndent("", "  ")
	}
	encoder.SetEscapeHTML(false) // a token or a persona is shown as it is
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := e.Stdout.Write(safeJSON(document.Bytes()))
	return err
}

// table writes rows under a header, in columns.
func table(w io.Writer, header []string, rows [][]string) error {
	columns := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(columns, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	return columns.Flush()
}

// pairs writes "name  value" lines.
func pairs(w io.Writer, lines [][2]string) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintf(columns, "%s\t%s\n", line[0], line[1])
	}
	return columns.Flush()
}

// when shows a time to a person.
func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// yesNo shows a bool to a person.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
