package provider

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"playground/inference"
)

// A complaint is what both APIs say in the body of an error response and in the error event of a stream.
type complaint struct {
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// complaintOf reads body. A body that is something else, such as the page of a proxy, says nothing.
func complaintOf(body []byte) (c complaint) {
	if json.Unmarshal(body, &c) != nil {
		return complaint{}
	}
	return c
}

// ofStatus is the failure that an HTTP status tells of.
func ofStatus(status int) inference.Failure {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return inference.Authentication
	case status == http.StatusTooManyRequests:
		return inference.RateLimited
	case status == http.StatusRequestTimeout, status >= 500:
		return inference.Overloaded
	default:
		return inference.InvalidRequest
	}
}

// ofType is the failure that the error event of a stream tells of.
func ofType(kind string) inference.Failure {
	switch kind {
	case "authentication_error", "permission_error":
		return inference.Authentication
	case "rate_limit_error", "rate_limit_exceeded":
		return inference.RateLimited
	case "invalid_request_error", "not_found_error", "request_too_large", "billing_error":
		return inference.InvalidRequest
	default:
		return inference.Overloaded
	}
}

// refused is the Error of a service that answered with an error.
func (s *service) refused(failure inference.Failure, status int, c complaint) *inference.Error {
	said := s.clean(c.Error.Message)
	if said != "" {
		said = ": " + said
	}
	var e *inference.Error
	switch failure {
	case inference.Authentication: // its message may repeat a part of the key
		e = inference.NewError(failure, "%s does not accept the key", s.name).WithHint("%s", s.keyHint())
	case inference.RateLimited:
		e = inference.NewError(failure, "%s limits the rate of calls%s", s.name, said).WithHint("wait, or ask %s for a higher limit", s.name)
	case inference.Overloaded:
		e = inference.NewError(failure, "%s cannot answer now (status %d)%s", s.name, status, said).WithHint("try again later")
	default:
		e = inference.NewError(failure, "%s refuses the request (status %d)%s", s.name, status, said).WithHint("check the name of the model and the base URL")
	}
	e.Status = status
	return e
}

// keyHint says where the key is mended.
func (s *service) keyHint() string {
	if s.keyFile != "" {
		return "write a valid key of " + s.name + " to " + s.keyFile
	}
	return "set a valid key of " + s.name
}

// looksSecret finds what services print of keys, whole or with stars.
var looksSecret = regexp.MustCompile(`\b(sk|key|pk|Bearer)[-_ ][A-Za-z0-9*._-]{6,}`)

// clean makes a text of the service fit to show: one line, not long, without keys.
func (s *service) clean(text string) string {
	const most = 300
	if key := s.key(); key != "" {
		text = strings.ReplaceAll(text, key, "[key]")
	}
	text = looksSecret.ReplaceAllString(text, "[key]")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return text
}
