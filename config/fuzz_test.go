package config

import (
	"os"
	"strings"
	"testing"

	"playground/fault"
)

// FuzzParse: whatever the file holds, Parse returns a *fault.Error with a hint or a Config within its bounds.
func FuzzParse(f *testing.F) {
	sample, err := os.ReadFile("../etc/playground.toml.sample")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sample))
	f.Add(keyLine.ReplaceAllString(string(sample), "$1"))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(strings.NewReader(text), "linux")
		if err != nil {
			if fault.KindOf(err) != fault.Invalid || fault.HintOf(err) == "" {
				t.Fatalf("error %v of kind %q, hint %q", err, fault.KindOf(err), fault.HintOf(err))
			}
			return
		}
		l := c.JobLimits()
		if l.ActivePerTenant < 1 || l.ActivePerHost < l.ActivePerTenant || l.PageBytes > l.RingBytes || l.ExecDefault > l.ExecMax {
			t.Fatalf("accepted limits %+v", l)
		}
		if c.Sandbox.Isolation == "none" && !strings.Contains(strings.ToLower(text), "isolation") {
			t.Fatal("isolation none without being asked for")
		}
		if len(c.OperatorSocket()) > sunPath {
			t.Fatalf("socket path %q is too long", c.OperatorSocket())
		}
	})
}
