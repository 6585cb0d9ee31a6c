package userapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"playground/account"
	"playground/fault"
)

func (a accounts) Revoke(ctx context.Context, tenant string) error {
	if err := a.fail["revoke"]; err != nil {
		return err
	}
	return a.Store.Revoke(ctx, tenant)
}

// A tenant that has filled the disk is destroyed all the same, though its revocation cannot be written: destroying it is
// what makes room.
func TestDestroyOnAFullDisk(t *testing.T) {
	w, o := newWorld(t)
	create(t, o, "ann")
	w.fail["revoke"] = fmt.Errorf("%w: disk full", account.ErrNotKept)
	if err := o.Destroy(context.Background(), "ann", true); err != nil {
		t.Fatal(err)
	}
	if w.whole(t, "ann") {
		t.Error("something is left")
	}
}

func TestDetachWhatIsNotAttached(t *testing.T) {
	w, o := newWorld(t)
	create(t, o, "ann")
	w.fail["close"] = fault.New(fault.NotOpen, "the session is not open").WithHint("call open_session first")
	_, err := o.Detach(context.Background(), "ann")
	if !errors.Is(err, fault.NotOpen) || strings.Contains(fault.HintOf(err), "open_session") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}
