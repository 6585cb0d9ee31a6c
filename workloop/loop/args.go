package loop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"playground/record"
)

// maxArgs bounds the arguments of one call, in bytes.
const maxArgs = 256 << 10

// malformed is the field of a proposal's arguments that holds the head of what could not be read.
const malformed = "malformed"

// cleanArgs returns the arguments of a call as a canonical JSON object. Of what is not one, problem says why, and args holds
// the head of it, so that the log shows what the model sent.
func cleanArgs(raw json.RawMessage) (args json.RawMessage, problem string) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return json.RawMessage("{}"), ""
	case len(raw) > maxArgs:
		problem = "the arguments are too large"
	case raw[0] != '{':
		problem = "the arguments are not a JSON object"
	default:
		canonical, err := record.Canonicalize(raw)
		if err == nil {
			return canonical, ""
		}
		problem = "the arguments are not a JSON object that can be read: " + printable(err.Error(), maxRemark)
	}
	// A string of valid UTF-8 always marshals.
	args, _ = json.Marshal(map[string]string{malformed: Bound(string(raw), maxRemark)})
	return args, problem
}

// ArgsHash returns the lowercase hex SHA-256 of arguments in canonical form: what makes two calls of a tool identical.
func ArgsHash(args json.RawMessage) string {
	if canonical, err := record.Canonicalize(args); err == nil {
		args = canonical
	}
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}
