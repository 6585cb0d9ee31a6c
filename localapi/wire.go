package localapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"playground/fault"
)

// An errorBody is the body of every answer that is not a success.
type errorBody struct {
	Error *fault.Error `json:"error"`
}

// status is the HTTP status of a kind. It serves people with curl; our clients read the kind.
func status(kind fault.Kind) int {
	switch kind {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Denied:
		return http.StatusForbidden
	case fault.Exists, fault.Busy, fault.NotOpen:
		return http.StatusConflict
	case fault.Limit:
		return http.StatusTooManyRequests
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Unavailable, fault.ProofLost:
		return http.StatusServiceUnavailable
	case fault.Unsupported:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

// wireError is err as it travels: the whole chain's text with the innermost fault's kind and hint, so that what a
// caller added by wrapping is not lost.
func wireError(err error) *fault.Error {
	return &fault.Error{Kind: fault.KindOf(err), Message: err.Error(), Hint: fault.HintOf(err)}
}

// replyError sends err. After a hijack the write fails, which is as good as anything.
func replyError(w http.ResponseWriter, err error) {
	e := wireError(err)
	body, jsonErr := encode(errorBody{e})
	if jsonErr != nil {
		body = []byte(`{"error":{"kind":"internal","message":"cannot encode the error"}}`)
	}
	send(w, status(e.Kind), "application/json", body)
}

// parseError rebuilds the error of an answer with an error status; what is not in our form is kept as a short text.
func parseError(daemon string, code int, body []byte) error {
	var e errorBody
	if err := json.Unmarshal(body, &e); err == nil && e.Error != nil && e.Error.Kind != "" {
		return e.Error
	}
	const most = 200
	if len(body) > most {
		body = body[:most]
	}
	if !utf8.Valid(body) {
		body = nil
	}
	return fault.New(fault.Internal, "%s answered with status %d: %q", daemon, code, body)
}

// errUnexpectedData is a peer that speaks before it may.
var errUnexpectedData = errors.New("data before the upgrade was answered")
