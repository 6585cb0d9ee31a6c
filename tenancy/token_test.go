package tenancy_test

import (
	"strings"
	"testing"

	"playground/tenancy"
)

func TestValidToken(t *testing.T) {
	for token, want := range map[string]bool{
		"": false, strings.Repeat("a", 31): false, strings.Repeat("a", 32): true, strings.Repeat("aZ9-._~+/", 4) + "==": true,
		strings.Repeat("a", 1024): true, strings.Repeat("a", 1025): false, strings.Repeat("=", 32): false,
		strings.Repeat("a", 31) + "\n": false, strings.Repeat("a", 31) + " b": false, "=" + strings.Repeat("a", 32): false,
		strings.Repeat("é", 16): false, strings.Repeat("a", 32) + "\x00": false, strings.Repeat("a", 31) + "\xff": false,
	} {
		err := tenancy.ValidToken([]byte(token))
		if (err == nil) != want {
			t.Errorf("%q: %v", token, err)
		}
		if err != nil && len(token) > 3 && strings.Contains(err.Error(), token) {
			t.Errorf("the error %q holds the token", err)
		}
	}
}
