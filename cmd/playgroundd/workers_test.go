package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/config"
	"playground/faculty"
	"playground/fault"
	"playground/gateway"
	"playground/jail"
	"playground/localtcp"
)

// fakeJails answer for playground-jaild.
type fakeJails struct {
	networks map[string]jail.Network
	asked    int
	dialled  []string
	listener net.Listener
}

func (f *fakeJails) Get(_ context.Context, tenant string) (jail.Sandbox, error) {
	f.asked++
	network, ok := f.networks[tenant]
	if !ok {
		return jail.Sandbox{}, fault.New(fault.NotFound, "no tenant")
	}
	return jail.Sandbox{Tenant: tenant, Network: network}, nil
}

func (f *fakeJails) Dial(_ context.Context, tenant, address string) (*os.File, error) {
	f.dialled = append(f.dialled, tenant+" "+address)
	if f.listener == nil {
		return nil, fault.New(fault.Unsupported, "cannot be reached")
	}
	return localtcp.Dial(netip.MustParseAddrPort(f.listener.Addr().String()), time.Now().Add(time.Second))
}

// Where a tenant has a network of its own, nothing is connected to on the host, whatever listens there.
func TestRoads(t *testing.T) {
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	to := host.Addr().(*net.TCPAddr).AddrPort()
	for name, direct := range map[jail.Network]bool{jail.NetworkHost: true, jail.NetworkInherit: true, jail.NetworkAddress: true,
		jail.NetworkNone: false, jail.NetworkVNET: false, "": false, "other": false} {
		f := &fakeJails{networks: map[string]jail.Network{"ann": name}}
		r := &roads{jails: f, known: map[string]network{}}
		conn, err := r.dial(t.Context(), "ann", to)
		if direct != (err == nil) || direct != (len(f.dialled) == 0) || !direct && (conn != nil || !errors.Is(err, fault.Unsupported)) {
			t.Errorf("network %q: %v, %v, jaild dialled %q", name, conn, err, f.dialled)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
	f := &fakeJails{networks: map[string]jail.Network{"ann": jail.NetworkHost}}
	r := &roads{jails: f, known: map[string]network{}}
	dial := func() error {
		conn, err := r.dial(t.Context(), "ann", to)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	for range 3 {
		if err := dial(); err != nil {
			t.Fatal(err)
		}
	}
	if f.asked != 1 {
		t.Errorf("jaild was asked %d times", f.asked)
	}
	f.networks["ann"] = jail.NetworkNone // made anew
	r.forget("ann")
	if err := dial(); !errors.Is(err, fault.Unsupported) {
		t.Errorf("an old network is still believed: %v", err)
	}
	delete(f.networks, "ann")
	r.forget("ann")
	if err := dial(); !errors.Is(err, fault.NotFound) {
		t.Errorf("a tenant that is gone: %v", err)
	}
}

// A fakeKeeper is playground-facultyd.
type fakeKeeper struct {
	mu      sync.Mutex
	workers []faculty.Worker
	reports map[string][]faculty.Health
}

func (f *fakeKeeper) List(context.Context) (faculty.Listing, error) {
	return faculty.Listing{Workers: f.workers}, nil
}

func (f *fakeKeeper) Report(_ context.Context, id string, health faculty.Health) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports[id] = append(f.reports[id], health)
	return nil
}

// Workers of both eras are asked with their own tokens, and what is wrong with the others is told.
func TestHealth(t *testing.T) {
	token := func(tenant string) string { return tenant + strings.Repeat("0", 32) }
	serve := func(tenant string, h http.Handler) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token(tenant) || r.URL.Path != "/mcp" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "notebook", Version: "7"}, nil)
	for _, name := range []string{"one", "two"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	handler := func(stateless bool) http.Handler {
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	}
	addresses := map[string]string{
		"modern": serve("modern", handler(true)), "legacy": serve("legacy", handler(false)), "wrong": serve("other", handler(true)),
		"broken": serve("broken", http.NotFoundHandler()), "elsewhere": serve("elsewhere", handler(true)),
		"redirect": serve("redirect", http.RedirectHandler("http://192.0.2.1/mcp", http.StatusTemporaryRedirect)),
	}
	dir := t.TempDir()
	var entries []map[string]string
	keeper := &fakeKeeper{reports: map[string][]faculty.Health{}}
	for tenant, address := range addresses {
		file := filepath.Join(dir, tenant)
		if err := os.WriteFile(file, []byte(token(tenant)), 0o600); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, map[string]string{"tenant": tenant, "address": address, "token_file": file})
		if tenant == "elsewhere" {
			address = "127.0.0.1:1"
		}
		keeper.workers = append(keeper.workers, faculty.Worker{ID: tenant, Tenant: tenant, Address: address, State: faculty.Running, Run: "svc-1"})
	}
	keeper.workers = append(keeper.workers, faculty.Worker{ID: "stopped", Tenant: "stopped", Address: "127.0.0.1:2", State: faculty.Stopped},
		faculty.Worker{ID: "unknown", Tenant: "unknown", Address: "127.0.0.1:2", State: faculty.Running, Run: "svc-1"})
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "manifest.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := gateway.Load(path, config.PrivateFile)
	if err != nil {
		t.Fatal(err)
	}
	g := gateway.New(gateway.Options{Manifest: m, Dial: func(_ context.Context, _ string, to netip.AddrPort) (gateway.Conn, error) {
		return opened(localtcp.Dial(to, time.Now().Add(5*time.Second)))
	}})
	h := &health{gateway: g, keeper: keeper}
	now := time.Now()
	h.round(t.Context(), now)
	for id, ok := range map[string]bool{"modern": true, "legacy": true, "wrong": false, "broken": false, "elsewhere": false, "redirect": false, "unknown": false} {
		reports := keeper.reports[id]
		if len(reports) != 1 || reports[0].OK != ok || reports[0].Run != "svc-1" || ok == (reports[0].Problem != "") || strings.Contains(reports[0].Problem, "00000") {
			t.Errorf("%s: %+v", id, reports)
		}
		if ok && (reports[0].Server != "notebook 7" || reports[0].Tools != 2) {
			t.Errorf("%s: %+v", id, reports)
		}
	}
	if len(keeper.reports["stopped"]) != 0 {
		t.Errorf("a stopped worker was asked: %+v", keeper.reports["stopped"])
	}
	// Then each one in its time, and a new life of one at once.
	h.round(t.Context(), now.Add(healthLook))
	h.round(t.Context(), now.Add(healthEager+time.Second))
	if good, bad := len(keeper.reports["modern"]), len(keeper.reports["broken"]); good != 1 || bad != 2 {
		t.Errorf("asked %d and %d times", good, bad)
	}
	for i := range keeper.workers {
		if keeper.workers[i].ID == "modern" {
			keeper.workers[i].Run = "svc-2"
		}
	}
	h.round(t.Context(), now.Add(healthEager+2*time.Second))
	if r := keeper.reports["modern"]; len(r) != 2 || r[1].Run != "svc-2" {
		t.Errorf("a new life: %+v", r)
	}
	h.round(t.Context(), now.Add(2*healthEvery))
	if n := len(keeper.reports["legacy"]); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// Root asks whether the files are as the daemon will need them, whose user is another.
func TestCheckAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root looks on another user's behalf")
	}
	const daemonUser = 65533
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"token":    strings.Repeat("t", 32),
		"manifest": fmt.Sprintf(`[{"tenant":"ann","address":"127.0.0.1:9001","token_file":%q}]`, at("token")),
		"playground.toml": fmt.Sprintf("[host]\nstate_dir = %q\ndaemon_user = \"nobody-of-this-name\"\n[http]\ncatalogue = \"workers\"\n[gateway]\nmanifest = %q\n",
			at("state"), at("manifest")),
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	test := func() error {
		return run(t.Context(), []string{"-t", "-c", at("playground.toml")}, io.Discard, io.Discard)
	}
	if err := test(); err != nil {
		t.Errorf("without that user the daemon is root: %v", err)
	}
	if err := errors.Join(os.MkdirAll(at("state/playgroundd"), 0o700), os.Chown(at("state/playgroundd"), daemonUser, -1)); err != nil {
		t.Fatal(err)
	}
	if err := test(); !errors.Is(err, fault.Invalid) || !strings.Contains(fault.HintOf(err), "65533") {
		t.Errorf("files that the daemon could not read: %v (%s)", err, fault.HintOf(err))
	}
	if err := errors.Join(os.Chown(at("manifest"), daemonUser, -1), os.Chown(at("token"), daemonUser, -1)); err != nil {
		t.Fatal(err)
	}
	if err := test(); err != nil {
		t.Errorf("files that are as the daemon needs them: %v", err)
	}
}
