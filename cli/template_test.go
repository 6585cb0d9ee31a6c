package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"playground/cli"
	"playground/fault"
	"playground/jail"
	"playground/localapi"
	"playground/localapi/jailapi"
)

// serveRoutes answers routes on the named socket of the environment's suite.
func serveRoutes(t *testing.T, e *cli.Env, socket string, routes []localapi.Route) {
	t.Helper()
	listener, err := localapi.Listen(filepath.Join(filepath.Dir(e.Config), socket), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	server := localapi.Server(localapi.Handler(routes, localapi.Options{}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// fakeTemplates stands for jaild with one template, base, that alice's sandbox stands on.
type fakeTemplates struct{ source *string }

func (f fakeTemplates) Create(_ context.Context, name, source string) (jail.Template, error) {
	if name == "base" {
		return jail.Template{}, fault.New(fault.Exists, "there is a template %q already", name)
	}
	*f.source = source
	return jail.Template{Name: name, Storage: jail.StorageDir, Source: source, Release: "14.3-RELEASE", Created: time.Unix(1_700_000_000, 0)}, nil
}

func (fakeTemplates) List(context.Context) ([]jail.Template, error) {
	return []jail.Template{{Name: "base", Storage: jail.StorageZFS, Source: "/", Created: time.Unix(1_700_000_000, 0), UsedBy: []string{"alice"}}}, nil
}

func (fakeTemplates) Destroy(_ context.Context, name string) error {
	if name == "base" {
		return fault.New(fault.Busy, "template %q is used by 1 sandboxes", name)
	}
	return nil
}

func templates(t *testing.T, asJSON bool) (e *cli.Env, source *string, stdout, stderr *bytes.Buffer) {
	t.Helper()
	e, stdout, stderr = env(t, fakeUsers{}, asJSON)
	source = new(string)
	me := localapi.Uids(uint32(os.Geteuid()))
	serveRoutes(t, e, "jaild.sock", jailapi.Routes(nil, fakeTemplates{source}, jailapi.Access{Callers: me, Operators: me}))
	return e, source, stdout, stderr
}

func TestTemplateCommands(t *testing.T) {
	ctx := t.Context()
	e, source, stdout, stderr := templates(t, false)
	if err := e.TemplateCreate(ctx, "old", "x/../base.txz"); err != nil {
		t.Fatal(err)
	}
	// The daemon works elsewhere: it is told a whole path.
	if here, err := os.Getwd(); err != nil || *source != filepath.Join(here, "base.txz") {
		t.Errorf("source %q, %v", *source, err)
	}
	if got := stdout.String(); got != "template old is ready: 14.3-RELEASE, storage dir\n" {
		t.Errorf("stdout %q", got)
	}
	if !strings.Contains(stderr.String(), `sandbox.template = "old"`) {
		t.Errorf("stderr %q does not say how to use it", stderr)
	}
	stdout.Reset()
	if err := e.TemplateList(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TEMPLATE", "base", "zfs", "unknown release", "alice"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in %s", want, stdout)
		}
	}
	if err := e.TemplateDestroy(ctx, "old"); err != nil || !strings.Contains(stdout.String(), "template old is destroyed") {
		t.Errorf("destroy: %v, %s", err, stdout)
	}
	if err := e.TemplateDestroy(ctx, "base"); !errors.Is(err, fault.Busy) {
		t.Errorf("destroy of one in use: %v", err)
	}
	if err := e.TemplateCreate(ctx, "base", "/"); !errors.Is(err, fault.Exists) {
		t.Errorf("create of one that exists: %v", err)
	}
}

func TestTemplateCommandsJSON(t *testing.T) {
	for field, run := range map[string]func(*cli.Env) error{
		"source":    func(e *cli.Env) error { return e.TemplateCreate(t.Context(), "old", "/") },
		"used_by":   func(e *cli.Env) error { return e.TemplateList(t.Context()) },
		"destroyed": func(e *cli.Env) error { return e.TemplateDestroy(t.Context(), "old") },
	} {
		e, _, stdout, _ := templates(t, true)
		if err := run(e); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(stdout.Bytes()) || !strings.Contains(stdout.String(), `"`+field+`"`) {
			t.Errorf("no %q in %s", field, stdout)
		}
	}
}
