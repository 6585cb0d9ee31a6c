package userapi_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"playground/fault"
	"playground/jail"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
	"playground/localapi/userapi"
)

// TestMissingDaemons runs the operator's calls over real clients of sockets that are not there, and its own socket.
func TestMissingDaemons(t *testing.T) {
	w, _ := newWorld(t)
	dir := t.TempDir()
	jaild, reaperd := jailapi.NewClient(filepath.Join(dir, "j.sock")), jobapi.NewClient(filepath.Join(dir, "r.sock"))
	o := userapi.NewOperator(jaild, reaperd, accounts{w}, userapi.About{
		Daemons: []userapi.Check{{Name: "playground-jaild", Probe: jaild.Probe}, {Name: "playground-reaperd", Probe: reaperd.Probe}}})
	client, _ := serve(t, o, me())
	ctx := context.Background()
	_, err := client.Create(ctx, jail.ProvisionSpec{Tenant: "ann"})
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "cannot reach playground-jaild at "+dir) || fault.HintOf(err) == "" {
		t.Errorf("create: %v, hint %q", err, fault.HintOf(err))
	}
	if _, err := w.Store.Get(ctx, "ann"); !errors.Is(err, fault.NotFound) {
		t.Errorf("an account was made: %v", err)
	}
	o = userapi.NewOperator(jails{w}, reaperd, accounts{w}, userapi.About{})
	create(t, o, "ann")
	err = o.Destroy(ctx, "ann", true)
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "cannot reach playground-reaperd") || !w.whole(t, "ann") {
		t.Errorf("destroy: %v", err)
	}
	status, err := client.Status(ctx)
	if err != nil || len(status.Daemons) != 2 || status.Daemons[0].State != userapi.Down || status.Daemons[1].State != userapi.Down {
		t.Errorf("status: %+v, %v", status, err)
	}
	if err := client.Health(ctx); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "playground-jaild, playground-reaperd") {
		t.Errorf("health: %v", err)
	}
}
