package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// canonical is Canonical of a record whose body is canonical already. The names of the seven fields are in canonical order.
func (r Record) canonical() []byte {
	out := make([]byte, 0, len(r.Body)+len(r.Actor)+len(r.Thread)+256)
	out = appendText(append(out, `{"act":`...), string(r.Act))
	out = appendText(append(out, `,"actor":`...), r.Actor)
	out = append(append(out, `,"body":`...), r.Body...)
	out = strconv.AppendInt(append(out, `,"clock":`...), r.Clock, 10)
	out = appendText(append(out, `,"data_type":`...), r.DataType)
	out = append(out, `,"parents":[`...)
	for i, parent := range r.Parents {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendText(out, parent)
	}
	out = appendText(append(out, `],"thread":`...), r.Thread)
	return append(out, '}')
}

func idOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// headerOf returns the string members that the log itself looks at, by their exact names. Unmarshalling into a struct would take
// "KIND" for "kind".
func headerOf(body json.RawMessage) (h header) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return header{}
	}
	text := func(name string) (s string) {
		if json.Unmarshal(members[name], &s) != nil {
			return ""
		}
		return s
	}
	return header{Kind: text("kind"), Topic: text("topic"), members: members}
}

type header struct {
	Kind, Topic string
	members     map[string]json.RawMessage
}
