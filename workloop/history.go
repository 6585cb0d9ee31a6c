package workloop

import (
	"encoding/json"

	"playground/inference"
	"playground/workloop/loop"
)

const (
	maxHistory = 4 << 20 // bytes of a conversation that is handed to a worker; it takes 8 MiB in all
	keptText   = 512     // of a part of it that is shortened
)

// shorten cuts the oldest parts of a conversation, until it is small enough to be handed over. The thread still has them whole.
func shorten(messages []inference.Message) {
	total := 0
	for _, m := range messages {
		for _, b := range m.Content {
			total += len(b.Text) + len(b.Input)
		}
	}
	for _, m := range messages {
		for i := range m.Content {
			if total <= maxHistory {
				return
			}
			b := &m.Content[i]
			before := len(b.Text) + len(b.Input)
			b.Text = loop.Bound(b.Text, keptText)
			if len(b.Input) > keptText {
				b.Input = json.RawMessage(`{"left_out":true}`)
			}
			total -= before - len(b.Text) - len(b.Input)
		}
	}
}
