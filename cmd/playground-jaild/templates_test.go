package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"playground/config"
	"playground/fault"
	"playground/jail"
)

// Where sandboxes are not made from templates, nothing that is about them seems to work.
func TestNoTemplates(t *testing.T) {
	_, templates, err := newTemplates(nil, jail.Options{Isolation: jail.IsolationNamespaces})
	if err != nil {
		t.Fatal(err)
	}
	_, createErr := templates.Create(t.Context(), "base", "/")
	_, listErr := templates.List(t.Context())
	for _, err := range []error{createErr, listErr, templates.Destroy(t.Context(), "base")} {
		if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "namespaces") || fault.HintOf(err) == "" {
			t.Errorf("got %v, hint %q", err, fault.HintOf(err))
		}
	}
}

func TestOneTemplateAtATime(t *testing.T) {
	opts := jail.Options{Isolation: jail.IsolationJail, StateDir: t.TempDir()}
	_, kept, err := newTemplates(nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := kept.(*templates).take()
	if err != nil {
		t.Fatal(err)
	}
	_, createErr := kept.Create(t.Context(), "base", "/nowhere")
	if destroyErr := kept.Destroy(t.Context(), "base"); !errors.Is(createErr, fault.Busy) || !errors.Is(destroyErr, fault.Busy) {
		t.Errorf("create: %v, destroy: %v, want busy", createErr, destroyErr)
	}
	if list, err := kept.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	unlock()
	if err := kept.Destroy(t.Context(), "base"); !errors.Is(err, fault.NotFound) {
		t.Errorf("destroy of nothing: %v", err)
	}
}

// A sandbox that cannot be brought back is told with its cause, which the tenant itself does not get to see.
func TestLogFailed(t *testing.T) {
	var log bytes.Buffer
	logFailed(map[string]error{
		"ann": fault.Hide(fault.Unavailable, errors.New("mount: no such folder"), "cannot make the sandbox"),
		"":    errors.New("a stray mount stays"),
	}, zerolog.New(&log))
	for _, want := range []string{
		`"tenant":"ann","error":"cannot make the sandbox","cause":"mount: no such folder","message":"not_reattached"`,
		`"error":"a stray mount stays","message":"leftovers_stay"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, &log)
		}
	}
}

// What the file says of storage reaches the sandboxes.
func TestOptions(t *testing.T) {
	c := config.Default("freebsd")
	c.Sandbox.Storage, c.Sandbox.Dataset, c.Sandbox.Quota, c.Sandbox.TmpBytes = jail.StorageZFS, "z/p", 1<<30, 1<<20
	c.Sandbox.DevfsRuleset, c.Sandbox.Template = 17, "base-14"
	o := options(c)
	if o.Storage != jail.StorageZFS || o.Dataset != "z/p" || o.Quota != 1<<30 || o.TmpBytes != 1<<20 || o.DevfsRuleset != 17 ||
		o.Template != "base-14" || o.Addresses.String() != jail.DefaultAddresses || o.UIDBase != 0 {
		t.Errorf("options = %+v", o)
	}
}
