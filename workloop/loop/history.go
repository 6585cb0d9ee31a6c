package loop

import (
	"encoding/json"

	"playground/inference"
	"playground/record"
)

// The kinds that the kernel writes and History reads.
const (
	KindToolCall = "core.work.tool_call.v1"
	KindMessage  = "core.work.message.v1"
)

// A ToolCallBody is the body of a tool_call record, as far as History reads it.
type ToolCallBody struct {
	CallID    string          `json:"call_id"`
	TurnIndex int             `json:"turn_index"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
}

// A MessageBody is the body of a message record: what a person said to a run.
type MessageBody struct {
	Text string `json:"text"`
}

// History returns the conversation that the records of a run's thread, in their order, tell of, and how many turns it had:
// what a Spec needs to go on after a pause. It leaves out the opening, which Run says again. What is missing, such as the
// result of a call that was cut short, Run fills in.
func History(records []record.Record) (messages []inference.Message, turns int) {
	callIDs := map[string]string{} // id of the tool_call record -> the model's id
	add := func(role string, b inference.Block) {
		if n := len(messages); n == 0 || messages[n-1].Role != role {
			messages = append(messages, inference.Message{Role: role})
		}
		last := &messages[len(messages)-1]
		last.Content = append(last.Content, b)
	}
	var held []inference.Block // answers of the turn in progress, which come after all of its calls
	release := func() {
		for _, b := range held {
			add(inference.User, b)
		}
		held = nil
	}
	for _, rec := range records {
		switch record.Kind(rec) {
		case KindTurn:
			var body TurnBody
			if rec.Decode(&body) != nil {
				continue
			}
			release()
			turns = max(turns, body.TurnIndex+1)
			if body.Text != "" {
				add(inference.Assistant, textBlock(body.Text))
			}
		case KindToolCall:
			var body ToolCallBody
			if rec.Decode(&body) == nil {
				callIDs[rec.ID] = body.CallID
				add(inference.Assistant, inference.Block{Type: inference.ToolUse, ID: body.CallID, Name: body.Tool, Input: body.Args})
			}
		case KindToolResult:
			var body ToolResultBody
			if id, ok := callIDs[body.from(rec)]; ok {
				held = append(held, resultBlock(id, Bound(body.Content, MaxContent), body.Status != StatusOK))
			}
		case KindObservation:
			var body ObservationBody
			if rec.Decode(&body) == nil {
				held = append(held, textBlock(body.Text))
			}
		case KindMessage:
			var body MessageBody
			if rec.Decode(&body) == nil {
				held = append(held, textBlock(personText+Bound(body.Text, MaxContent)))
			}
		}
	}
	release()
	return messages, turns
}

// from reads the record into b and returns the call that it is the result of.
func (b *ToolResultBody) from(rec record.Record) string {
	if rec.Decode(b) != nil {
		return ""
	}
	return b.Fulfills
}
