package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"playground/jail"
	"playground/job"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
)

// A worker in a sandbox without a network: it answers every request with what it got of it.
const perlWorker = `use IO::Socket::INET; $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 9001, Listen => 9, ReuseAddr => 1) or die "$!";
while ($c = $s->accept) { $n = 0; $h = ""; while (<$c>) { $n = $1 if /^Content-Length: (\d+)/i; $h .= $_; last if /^\r?\n/ } read $c, $b, $n;
$t = $h =~ /^Authorization: Bearer (\w+)/m ? $1 : ""; $i = $h =~ /^Mcp-Session-Id: (\S+)/m ? $1 : "none"; $o = "tenant=$ENV{USER} auth=$t session=$i body=$b";
print $c "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: inner-7\r\nContent-Length: " . length($o) . "\r\n\r\n$o"; close $c }`

// The service that forwards to native workers has none of the sandboxes' tools, reaches a worker inside a sandbox that has no
// network, and refuses a manifest that is not right.
func TestWorkersCatalogue(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not installed")
	}
	h := start(t)
	alice, bob := h.tenant("alice"), h.tenant("bob")
	h.stop()
	inner := strings.Repeat("i", 40)
	token, list := filepath.Join(h.state, "alice.token"), filepath.Join(h.state, "workers.json")
	write(t, token, inner+"\n")
	text, err := json.Marshal([]map[string]string{{"tenant": "alice", "address": "127.0.0.1:9001", "token_file": token}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, list, string(text))
	settings, err := os.ReadFile(filepath.Join(h.state, "playground.toml"))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(settings), "[http]\n", "[http]\ncatalogue = \"workers\"\n", 1) + fmt.Sprintf("\n[gateway]\nmanifest = %q\n", list)
	write(t, filepath.Join(h.state, "playground.toml"), changed)

	check := func(wanted string) {
		t.Helper()
		out, err := exec.Command(filepath.Join(h.bin, "playgroundd"), "-t", "-c", filepath.Join(h.state, "playground.toml")).CombinedOutput()
		if (err == nil) != (wanted == "is correct") || !strings.Contains(string(out), wanted) {
			t.Errorf("playgroundd -t: %v %s, want %q", err, out, wanted)
		}
	}
	check("is correct")
	if err := os.Chmod(token, 0o644); err != nil {
		t.Fatal(err)
	}
	check("0644")
	out, _, status := h.playground("doctor", "-o", "json")
	if status != 2 || !strings.Contains(out, "0644") {
		t.Errorf("doctor: status %d\n%s", status, out)
	}
	if err := os.Chmod(token, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, list, strings.Replace(string(text), "9001", strings.TrimPrefix(h.listen, "127.0.0.1:"), 1))
	check("address of this service itself")
	write(t, list, string(text))
	h.launch()

	post := func(bearer, session, body string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+h.listen+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		r.Header.Set("Content-Type", "application/json")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		return response.StatusCode, response.Header, string(data)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	const begin, list2 = `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if status, _, body := post(alice, "", begin); status != 503 || !strings.Contains(body, "the request was not sent") {
		t.Errorf("without a sandbox: %d %s", status, body)
	}
	jails, jobs := jailapi.NewClient(filepath.Join(h.state, "run", "jaild.sock")), jobapi.NewClient(filepath.Join(h.state, "run", "reaperd.sock"))
	defer jails.Disconnect()
	defer jobs.Disconnect()
	if _, err := jails.Open(t.Context(), "alice", jail.OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	if status, _, body := post(alice, "", begin); status != 503 || !strings.Contains(body, "the request was not sent") {
		t.Errorf("without a worker: %d %s", status, body)
	}
	if _, err := jobs.Start(t.Context(), job.Spec{Tenant: "alice", Command: []byte("exec perl -e '" + perlWorker + "'"), Mode: job.Login}); err != nil {
		t.Fatal(err)
	}
	var header http.Header
	var body string
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var status int
		if status, header, body = post(alice, "", begin); status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %s", status, body)
		}
	}
	if want := "tenant=alice auth=" + inner + " session=none body=" + begin; body != want {
		t.Errorf("got %q, want %q", body, want)
	}
	session := header.Get("Mcp-Session-Id")
	if session == "" || session == "inner-7" {
		t.Errorf("session %q", session)
	}
	if status, _, body := post(alice, session, list2); status != 200 || body != "tenant=alice auth="+inner+" session=inner-7 body="+list2 {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body := post(bob, session, list2); status != 503 || !strings.Contains(body, "no worker is configured") {
		t.Errorf("a tenant without a worker: %d %s", status, body)
	}
	h.must(nil, "user", "token", "revoke", "alice")
	if status, _, _ := post(alice, session, list2); status != 401 {
		t.Errorf("a revoked token: %d", status)
	}
}
