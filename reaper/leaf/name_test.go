package leaf_test

import (
	"testing"
	"time"

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

// A daemon tells by the name whether an earlier one made the leaf.
func TestMadeBefore(t *testing.T) {
	const name = "pg-alice.j01arz3ndektsv4rrffq69g5fav"
	made := time.UnixMilli(1469922850259)
	if leaf.MadeBefore(name, made) || leaf.MadeBefore(name, made.Add(time.Microsecond)) || !leaf.MadeBefore(name, made.Add(time.Millisecond)) {
		t.Error("the time in the name is not compared to the millisecond")
	}
	if leaf.MadeBefore("pg-alice.job", time.Now()) || leaf.MadeBefore("pg-alice", time.Now()) || leaf.MadeBefore("", time.Now()) {
		t.Error("what is no leaf was made before now")
	}
}
