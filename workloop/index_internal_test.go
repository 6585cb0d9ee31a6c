package workloop

import "testing"

// A run can end before its start has returned; the end of the start's move is not the end of the outcome's.
func TestMovesOverlap(t *testing.T) {
	x := &index{byThread: map[string]*entry{}, lives: map[string]string{}, moving: map[string]chan struct{}{}}
	started := x.move("th")
	ended := x.move("th")
	started()
	if x.moving["th"] == nil {
		t.Error("the outcome's move is forgotten")
	}
	ended()
	if len(x.moving) != 0 {
		t.Error("a move is left")
	}
	x.still("th")
	x.still("")
}
