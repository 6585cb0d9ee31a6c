package tenancy_test

import (
	"errors"
	"strings"
	"testing"

	"playground/fault"
	"playground/tenancy"
)

func TestValidName(t *testing.T) {
	good := []string{"ab", "a1", "1a", "a-b", "a--b", "0x0", strings.Repeat("a", 32)}
	for _, name := range good {
		if err := tenancy.ValidName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	bad := []string{"", "a", "7", "42", "-a", "a-", "--", "Ab", "a_b", "a.b", "a/b", "..", "a b", "a\n", "é1", "a\x00b", strings.Repeat("a", 33),
		strings.Repeat("1", 32), "\xff\xff"}
	for _, name := range bad {
		err := tenancy.ValidName(name)
		if !errors.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
			t.Errorf("%q: error %v, hint %q", name, err, fault.HintOf(err))
		}
	}
}
