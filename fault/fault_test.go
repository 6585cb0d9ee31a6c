package fault_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"playground/fault"
)

func TestKindsAndCauses(t *testing.T) {
	wrapped := fault.Wrap(fault.NotFound, io.EOF, "cannot read %q", "x").WithHint("look %s", "there")
	err := fmt.Errorf("outer: %w", wrapped)
	if !errors.Is(err, fault.NotFound) || errors.Is(err, fault.Denied) || !errors.Is(err, io.EOF) {
		t.Errorf("%v: kind or cause not found", err)
	}
	if fault.KindOf(err) != fault.NotFound || fault.HintOf(err) != "look there" {
		t.Errorf("kind %q, hint %q", fault.KindOf(err), fault.HintOf(err))
	}
	if fault.KindOf(io.EOF) != fault.Internal || fault.KindOf(nil) != "" || fault.HintOf(io.EOF) != "" {
		t.Error("plain errors")
	}
}

func TestHideKeepsTheCauseOut(t *testing.T) {
	err := fault.Hide(fault.Unavailable, errors.New("/var/secret/path"), "cannot start")
	if strings.Contains(err.Error(), "secret") || errors.Unwrap(err) == nil {
		t.Errorf("message %q, cause %v", err, errors.Unwrap(err))
	}
}
