package leaf_test

import (
	"testing"

	"playground/reaper/leaf"
)

// Only what was made here is ever taken for a leftover: a leaf under a tenant's jail, with a ULID.
func TestIsName(t *testing.T) {
	const id = "j01arz3ndektsv4rrffq69g5fav"
	for name, want := range map[string]bool{
		"pg-alice." + id:                       true,
		"pg-a-b." + id:                         true,
		"pg-alice":                             false,
		"pg-alice." + id + ".x":                false,
		"pg-." + id:                            false,
		"pg." + id:                             false,
		"alice." + id:                          false,
		"pgx-alice." + id:                      false,
		"pg-alice.01arz3ndektsv4rrffq69g5fav":  false,
		"pg-alice.j01ARZ3NDEKTSV4RRFFQ69G5FAV": false,
		"pg-alice.j01arz3ndektsv4rrffq69g5fa":  false,
		"pg-alice.j01arz3ndektsv4rrffq69g5f!v": false,
		"pg-alice.job":                         false,
		"":                                     false,
	} {
		if got := leaf.IsName("pg", name); got != want {
			t.Errorf("IsName(%q) = %v", name, got)
		}
	}
	if leaf.IsName("", "-alice."+id) {
		t.Error("an empty prefix matches")
	}
}
