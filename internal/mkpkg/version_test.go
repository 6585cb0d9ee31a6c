package main

import (
	"testing"
	"time"
)

func TestPackageVersion(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for describe, want := range map[string]string{
		"v1.2.3":                    "1.2.3",
		"1.2.3":                     "1.2.3",
		"v1.2.3-dirty":              "1.2.3.0.1",
		"v1.2.3-45-gabcdef0":        "1.2.3.45",
		"v1.2.3-45-gabcdef0-dirty":  "1.2.3.45.1",
		"79c6b20":                   "0.0.20261129120000",
		"1234567":                   "0.0.20261129120000",
		"79c6b20-dirty":             "0.0.20261129120000",
		"devel":                     "0.0.20261129120000",
		"v1.2.3-rc1":                "0.0.20261129120000",
		"v1.2.3\n; rm -rf /":        "0.0.20261129120000",
		"v1.2.3-4-gabc/../../x.pkg": "0.0.20261129120000",
	} {
		if got := packageVersion(describe, at); got != want {
			t.Errorf("%q: version %q, want %q", describe, got, want)
		}
	}
}
