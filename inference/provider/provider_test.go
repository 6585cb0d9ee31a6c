package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"playground/fault"
	"playground/inference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptions(t *testing.T) {
	key := []byte(secret)
	for name, c := range map[string]struct {
		o      Options
		needle string
	}{
		"none of a service": {Options{}, "no key"},
		"line break":        {Options{Key: []byte("sk-0123456789\nX: y")}, "cannot be sent"},
		"long":              {Options{Key: []byte(strings.Repeat("0123456789", 1000))}, "cannot be sent"},
		"not a URL":         {Options{Key: key, BaseURL: "://0123456789"}, "http"},
		"scheme":            {Options{Key: key, BaseURL: "file:///etc/passwd"}, "http"},
		"clear text":        {Options{Key: key, BaseURL: "http://models.example.org/v1"}, "unencrypted"},
		"password":          {Options{Key: key, BaseURL: "https://a:0123456789@models.example.org/"}, "a user"},
		"query":             {Options{Key: key, BaseURL: "https://models.example.org/?key=0123456789"}, "a query"},
	} {
		for _, d := range dialects() {
			_, _, err := d.build(c.o)
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.needle) {
				t.Errorf("%s, %s: %v", name, d.name, err)
			} else if text := err.Error() + fault.HintOf(err); strings.Contains(text, "0123456789") {
				t.Errorf("%s: the secret is in %q", name, text)
			}
		}
	}
	for _, o := range []Options{{Key: key}, {Key: key, BaseURL: "http://[::1]:8080"}, {Key: key, BaseURL: "http://localhost/v1"}, {BaseURL: "http://10.0.0.1/v1"}} {
		for _, d := range dialects() {
			p, _, err := d.build(o)
			if err != nil {
				t.Errorf("%s %v: %v", d.name, o.BaseURL, err)
			}
			if text := fmt.Sprintf("%v %+v %#v %s", p, p, p, p); strings.Contains(text, "0123456789") {
				t.Errorf("printing the %s provider shows its key", d.name)
			}
		}
	}
}

// Whatever a model writes as arguments has a JSON form.
func FuzzWritten(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"a":`, "null", "[1]", "\xff", `{"a":1}{`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if raw := written(text); !json.Valid(raw) {
			t.Errorf("%q became %q", text, raw)
		}
	})
}

// A canned transport answers every request with the same stream.
type canned string

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

// A stream of any bytes ends in a response or in a typed error.
func FuzzStream(f *testing.F) {
	for _, d := range dialects() {
		for _, text := range []string{d.text, d.tool, d.cut, d.broken} {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range dialects() {
			p, s, err := d.build(Options{Key: []byte(secret)})
			if err != nil {
				t.Fatal(err)
			}
			s.client.Transport = canned(text)
			response, err := p.Complete(t.Context(), ask(), nil)
			if _, typed := errors.AsType[*inference.Error](err); err != nil && !typed {
				t.Errorf("%s: error %v", d.name, err)
			}
			if _, err := json.Marshal(response); err != nil {
				t.Errorf("%s: the response has no JSON: %v", d.name, err)
			}
		}
	})
}
