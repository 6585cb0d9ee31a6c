package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"playground/record"
)

// The tools that the loop runs itself.
const (
	ToolRecordNote  = "record_note"
	ToolQueryThread = "query_thread"
	ToolReadRecord  = "read_record"
)

// Bounds of the local tools.
const (
	maxNote   = 64 << 10  // bytes of a note
	maxShown  = 200       // records of one query that are shown
	maxLine   = 240       // bytes of a record's line
	maxFields = 16        // named fields of one query
	maxData   = 128 << 10 // bytes of a result's data
)

// LocalTools returns the tools that the loop runs itself, through the kernel's Append and Query.
func LocalTools() []Tool {
	return []Tool{
		{Name: ToolRecordNote, Domain: Sandboxed,
			Description: "Record a note on this run's thread: a finding, a decision, anything that must outlast the run. Only text is needed.",
			Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"the note","minLength":1,"maxLength":65536}},` +
				`"required":["text"],"additionalProperties":false}`)},
		{Name: ToolQueryThread, Domain: Sandboxed,
			Description: "Read a thread, one line a record: clock, act, author, kind and the beginning of its text; +fields names what else the record holds. " +
				"Read a record whole with read_record.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"thread":{"type":"string","description":"id of the thread"},` +
				`"filter":{"type":"object","description":"conditions over act, actor, clock, created_at, id and body.PATH with $eq $ne $gt $gte $lt $lte $in $nin $like $ilike $exists $and $or $not, for example {\"body.kind\":\"core.work.note.v1\"}"},` +
				`"count_only":{"type":"boolean","description":"answer with the number of records alone"},` +
				`"fields":{"type":"array","items":{"type":"string"},"maxItems":16,"description":"fields of the body to show whole"}},` +
				`"required":["thread"],"additionalProperties":false}`)},
		{Name: ToolReadRecord, Domain: Sandboxed,
			Description: "Read one record of a thread whole, with its version (its id).",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"thread":{"type":"string","description":"id of the thread"},` +
				`"clock":{"type":"integer","minimum":0,"description":"the record's clock, as query_thread shows it"}},` +
				`"required":["thread","clock"],"additionalProperties":false}`)},
	}
}

// local runs a local tool. An error ends the run; what the model can mend is a Result.
func (r *run) local(ctx context.Context, c call) (Result, error) {
	var result Result
	var err error
	switch c.tool {
	case ToolRecordNote:
		result, err = r.recordNote(ctx, c.args)
	case ToolQueryThread:
		result, err = r.queryThread(ctx, c.args)
	case ToolReadRecord:
		result, err = r.readRecord(ctx, c.args)
	default:
		return Result{Status: StatusError, Code: codeUnavailable, Content: fmt.Sprintf("The tool %s cannot be run here.", c.tool)}, nil
	}
	if invalid, ok := errors.AsType[*argumentError](err); ok {
		return Result{Status: StatusError, Code: codeInvalid, Content: "Not run: " + invalid.Error() + "."}, nil
	}
	if soft, ok := soften(err); ok {
		return Result{Status: StatusError, Code: soft.code, Content: soft.message}, nil
	}
	return result, err
}

// An argumentError says what is wrong with a call's arguments.
type argumentError struct{ text string }

func (e *argumentError) Error() string { return e.text }

// decodeArgs reads arguments into v and refuses what v does not know.
func decodeArgs(args json.RawMessage, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return &argumentError{strings.TrimPrefix(printable(err.Error(), maxRemark), "json: ")}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &argumentError{"something follows the arguments"}
	}
	return nil
}

func (r *run) recordNote(ctx context.Context, args json.RawMessage) (Result, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := decodeArgs(args, &in); err != nil {
		return Result{}, err
	}
	switch {
	case strings.TrimSpace(in.Text) == "":
		return Result{}, &argumentError{"text is empty"}
	case len(in.Text) > maxNote:
		return Result{}, &argumentError{fmt.Sprintf("text has %d bytes and may have %d", len(in.Text), maxNote)}
	}
	id, err := r.kernel.Append(ctx, Entry{Kind: KindNote, Act: ActOf(KindNote), Body: NoteBody{Text: in.Text, TurnIndex: r.turn - 1}})
	if err != nil {
		return Result{}, err
	}
	return Result{Status: StatusOK, Content: "Noted, as record " + id + ".", Data: dataOf(map[string]string{"id": id})}, nil
}

// threadData is the data of a read: what emptyRead looks at, and what a program would want to know.
type threadData struct {
	Thread    string     `json:"thread"`
	Total     int64      `json:"total"`
	Shown     int        `json:"shown"`
	Truncated bool       `json:"truncated"`
	Records   []lineData `json:"records"`
}

// lineData is one record in threadData.
type lineData struct {
	ID    string     `json:"id"`
	Clock int64      `json:"clock"`
	Act   record.Act `json:"act"`
	Actor string     `json:"actor"`
	Kind  string     `json:"kind"`
}

func lineOf(rec record.Record) lineData {
	return lineData{ID: rec.ID, Clock: rec.Clock, Act: rec.Act, Actor: rec.Actor, Kind: record.Kind(rec)}
}

func (r *run) queryThread(ctx context.Context, args json.RawMessage) (Result, error) {
	var in struct {
		Thread    string          `json:"thread"`
		Filter    json.RawMessage `json:"filter"`
		CountOnly bool            `json:"count_only"`
		Fields    []string        `json:"fields"`
	}
	if err := decodeArgs(args, &in); err != nil {
		return Result{}, err
	}
	switch {
	case in.Thread == "":
		return Result{}, &argumentError{"thread is missing"}
	case len(in.Fields) > maxFields:
		return Result{}, &argumentError{fmt.Sprintf("fields has %d names and may have %d", len(in.Fields), maxFields)}
	}
	query := record.Query{Thread: in.Thread, Limit: maxShown}
	if filter := bytes.TrimSpace(in.Filter); len(filter) > 0 && !bytes.Equal(filter, []byte("null")) {
		query.Filter = filter
	}
	if in.CountOnly {
		query.Limit = 1
	}
	page, err := r.kernel.Query(ctx, query)
	if err != nil {
		return Result{}, err
	}
	data := threadData{Thread: in.Thread, Total: max(page.MatchedTotal, int64(len(page.Data))), Records: []lineData{}}
	var text strings.Builder
	fmt.Fprintf(&text, "thread %s: %d records", in.Thread, data.Total)
	if !in.CountOnly {
		for _, rec := range page.Data[:min(len(page.Data), maxShown)] {
			line := recordLine(rec, in.Fields)
			if text.Len()+len(line) > MaxContent-maxLine {
				break
			}
			text.WriteString("\n" + line)
			data.Records = append(data.Records, lineOf(rec))
		}
		data.Shown = len(data.Records)
		if data.Truncated = int64(data.Shown) < data.Total; data.Truncated {
			fmt.Fprintf(&text, "\n%d of %d records are shown. Ask with a filter for less, such as {\"clock\":{\"$gt\":N}}.", data.Shown, data.Total)
		}
	}
	return Result{Status: StatusOK, Content: text.String(), Data: dataOf(data)}, nil
}

// recordLine is a record on one line: what it is, the beginning of its text, the fields that were asked for and the names of
// the others.
func recordLine(rec record.Record, fields []string) string {
	var body map[string]json.RawMessage
	if json.Unmarshal(rec.Body, &body) != nil {
		body = nil
	}
	line := fmt.Sprintf("%d %s %s %s", rec.Clock, rec.Act, rec.Actor, record.Kind(rec))
	for _, key := range []string{"text", "goal", "summary", "content"} {
		var text string
		if json.Unmarshal(body[key], &text) == nil && text != "" && !slices.Contains(fields, key) {
			line += " " + oneLine(text, maxLine)
			delete(body, key)
			break
		}
	}
	delete(body, "kind")
	for _, field := range fields {
		if value, ok := body[field]; ok {
			line += " " + field + "=" + oneLine(string(value), MaxContent/maxFields)
			delete(body, field)
		}
	}
	names := make([]string, 0, len(body))
	for name := range body {
		names = append(names, printable(name, maxName))
	}
	if slices.Sort(names); len(names) > 0 {
		line += " +fields: " + oneLine(strings.Join(names, ","), maxLine)
	}
	return line
}

// oneLine returns the beginning of text on one line.
func oneLine(text string, limit int) string {
	short := printable(strings.Join(strings.Fields(text), " "), limit)
	if len(short) == limit {
		short += "..."
	}
	return short
}

func (r *run) readRecord(ctx context.Context, args json.RawMessage) (Result, error) {
	var in struct {
		Thread string `json:"thread"`
		Clock  *int64 `json:"clock"`
	}
	if err := decodeArgs(args, &in); err != nil {
		return Result{}, err
	}
	switch {
	case in.Thread == "":
		return Result{}, &argumentError{"thread is missing"}
	case in.Clock == nil:
		return Result{}, &argumentError{"clock is missing"}
	}
	// A clock is unique for an author, so that a thread of several can have more than one.
	filter, _ := json.Marshal(map[string]int64{"clock": *in.Clock}) // cannot fail
	page, err := r.kernel.Query(ctx, record.Query{Thread: in.Thread, Filter: filter, Limit: maxShown})
	if err != nil {
		return Result{}, err
	}
	data := threadData{Thread: in.Thread, Total: max(page.MatchedTotal, int64(len(page.Data))), Records: []lineData{}}
	var text strings.Builder
	for _, rec := range page.Data[:min(len(page.Data), maxShown)] {
		encoded, err := json.Marshal(rec)
		if err != nil || (data.Shown > 0 && text.Len()+len(encoded) > MaxContent) {
			break
		}
		fmt.Fprintf(&text, "version: %s\n%s\n", rec.ID, encoded)
		data.Records, data.Shown = append(data.Records, lineOf(rec)), data.Shown+1
	}
	if data.Truncated = int64(data.Shown) < data.Total; data.Total == 0 {
		fmt.Fprintf(&text, "There is no record with clock %d on thread %s.", *in.Clock, in.Thread)
	}
	return Result{Status: StatusOK, Content: text.String(), Data: dataOf(data)}, nil
}

// dataOf encodes a result's data; what is too large is left out, since the content says it too.
func dataOf(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil || len(data) > maxData {
		return nil
	}
	return data
}
