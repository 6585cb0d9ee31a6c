package localapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

type cargo struct {
	Name  string   `json:"name"`
	Parts [][]byte `json:"parts"`
}

func (c *cargo) Blobs() []*[]byte {
	var all []*[]byte
	for i := range c.Parts {
		all = append(all, &c.Parts[i])
	}
	return all
}

func TestBlobs(t *testing.T) {
	for _, parts := range [][][]byte{nil, {nil}, {[]byte("a")}, {[]byte("a\x00\xff"), nil, []byte("bc")}, {nil, nil, bytes.Repeat([]byte("x"), 5000)}} {
		in := &cargo{Name: "n", Parts: parts}
		want := cargo{Name: "n", Parts: parts}
		body, sizes, err := encodeBlobs(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, *in); diff != "" {
			t.Errorf("encoding changed the value: -want +got\n%s", diff)
		}
		r := httptest.NewRequest("POST", "/x", bytes.NewReader(body))
		if sizes != "" {
			r.Header.Set(blobHeader, sizes)
		}
		var got cargo
		if err := Decode(r, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		for _, p := range got.Parts {
			if cap(p) != len(p) {
				t.Error("a blob can grow into its neighbour")
			}
		}
	}
}

func TestBadBlobs(t *testing.T) {
	const value = `{"name":"n","parts":[null]}`
	for name, tt := range map[string]struct{ body, sizes string }{
		"longer than the body": {value + "a", "1000"},
		"negative":             {value + "a", "-1"},
		"not a number":         {value + "a", "x"},
		"empty size":           {value + "a", "1,"},
		"overflow":             {value + "a", "99999999999999999999"},
		"sum over the body":    {value + "a", "20,20"},
		"too few":              {`{"parts":[null,null]}a`, "1"},
		"too many":             {value + "ab", "1,1"},
		"cuts the value":       {value, "3"},
		"leaves a rest":        {value + "abc", "1"},
		"thousands":            {value, strings.Repeat("0,", maxBlobs) + "0"},
	} {
		r := httptest.NewRequest("POST", "/x", strings.NewReader(tt.body))
		r.Header.Set(blobHeader, tt.sizes)
		var v cargo
		if err := Decode(r, &v); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: error %v, got %+v", name, err, v)
		}
	}
	r := httptest.NewRequest("POST", "/x", strings.NewReader(`{}a`))
	r.Header.Set(blobHeader, "1")
	if err := Decode(r, &struct{}{}); !errors.Is(err, fault.Invalid) {
		t.Errorf("blobs for a plain value: %v", err)
	}
}

// TestBlobsForOthers: a caller that does not ask for blobs gets JSON alone.
func TestBlobsForOthers(t *testing.T) {
	v := &cargo{Name: "n", Parts: [][]byte{[]byte("abc")}}
	w := httptest.NewRecorder()
	if err := ReplyBlobs(w, httptest.NewRequest("GET", "/x", nil), v); err != nil {
		t.Fatal(err)
	}
	var got cargo
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || cmp.Diff(*v, got) != "" || w.Header().Get(blobHeader) != "" {
		t.Errorf("%q, %v", w.Body, err)
	}
}

func FuzzDecodeBlobs(f *testing.F) {
	f.Add([]byte(`{"name":"n","parts":[null,null]}abc`), "1,2")
	f.Add([]byte(`{"parts":[]}`), "0")
	f.Add([]byte(`{}`), ",")
	f.Add([]byte(``), "-0")
	f.Fuzz(func(t *testing.T, body []byte, sizes string) {
		r := httptest.NewRequest("POST", "/x", bytes.NewReader(body))
		r.Header.Set(blobHeader, sizes)
		var v cargo
		if err := Decode(r, &v); err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("kind %q: %v", fault.KindOf(err), err)
			}
			return
		}
		total := 0
		for _, p := range v.Parts {
			total += len(p)
		}
		// Base64 is taken as well, so what arrived is at most what was sent.
		if total > len(body) {
			t.Errorf("%d bytes came out of %d", total, len(body))
		}
	})
}
