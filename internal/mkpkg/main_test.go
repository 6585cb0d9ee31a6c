package main

import (
	"io"
	"slices"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	o, err := parse([]string{"-arch", "arm64", "-abi", "14,15", "-version", "v1.2.3", "-out", "o"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.archs, []string{"arm64"}) || !slices.Equal(o.majors, []int{14, 15}) || o.version != "v1.2.3" || o.out != "o" ||
		!o.time.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("options %+v", o)
	}
	for name, args := range map[string][]string{
		"unknown flag":               {"-x"},
		"argument":                   {"x"},
		"architecture":               {"-arch", "i386"},
		"empty architecture":         {"-arch", "amd64,"},
		"too old":                    {"-abi", "12"},
		"no number":                  {"-abi", "14.1"},
		"stage of two architectures": {"-stage", "/tmp/x"},
	} {
		if o, err := parse(args, io.Discard); err == nil {
			t.Errorf("%s: %v was taken as %+v", name, args, o)
		}
	}
	for _, epoch := range []string{"now", "-1", "99999999999", "1.5"} {
		t.Setenv("SOURCE_DATE_EPOCH", epoch)
		if _, err := parse(nil, io.Discard); err == nil {
			t.Errorf("SOURCE_DATE_EPOCH %q was taken", epoch)
		}
	}
}
