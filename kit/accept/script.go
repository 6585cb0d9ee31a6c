package main

import (
	"encoding/json"
	"io"
	"time"
)

// The goals of the play's runs. What the model "says" to each is in the script that the suite is configured with.
const (
	goalNote = "Record a note whose text is exactly: transport-check . Use the record_note tool with only the text argument. Then stop."
	goalSlow = "kit slow: record two notes, with time to think between them."
	goalLong = "kit long: record a note, then think for a long time."
)

// A scriptStep is one answer of the model of provider "scripted".
type scriptStep struct {
	Match     string       `json:"match"`
	Text      string       `json:"text,omitempty"`
	ToolCalls []scriptCall `json:"tool_calls,omitempty"`
	DelayMS   int64        `json:"delay_ms,omitempty"`
}

type scriptCall struct {
	Name string            `json:"name"`
	Args map[string]string `json:"args"`
}

// How long the model thinks. The first is the time in which something happens to a run; the second, at most, outlives all
// that can happen to one.
const (
	slowThought = 3 * time.Second
	longThought = 9 * time.Minute
)

// writeScript writes the script for work.script. Patience stretches the pauses, so that a slow host can act within them.
func writeScript(w io.Writer, patience float64) error {
	note := func(match, text string, after time.Duration) scriptStep {
		return scriptStep{Match: match, DelayMS: after.Milliseconds(), ToolCalls: []scriptCall{{"record_note", map[string]string{"text": text}}}}
	}
	slow := min(time.Duration(float64(slowThought)*patience), longThought)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode([]scriptStep{
		note("transport-check", "transport-check", 0),
		{Match: "transport-check", Text: "The note is recorded."},
		note("kit slow", "slow 1", 0), note("kit slow", "slow 2", slow),
		{Match: "kit slow", Text: "That is all."},
		note("kit long", "long 1", 0), note("kit long", "long 2", longThought),
	})
}
