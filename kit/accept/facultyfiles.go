package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/mcpclient"
)

// facultyFiles are the operator's files. The two daemons that read them run as different users, and each wants its own private
// to it.
type facultyFiles struct {
	definitions, manifest string
	token                 string // the internal token itself
}

// writeFiles writes the definitions, the manifest and the token, and names them in the configuration.
func (p *facultyplay) writeFiles(ctx context.Context) (f facultyFiles, err error) {
	uid, gid, err := p.transportUser(ctx)
	if err != nil {
		return f, err
	}
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return f, err
	}
	f.token = hex.EncodeToString(random)
	at := func(name string) string { return filepath.Join(p.options.folder, name) }
	definitions := map[string]any{"workers": []any{map[string]any{
		"tenant": p.tenant, "program": p.program(), "args": []string{"--listen", "{address}", "--token-file", "{token_file}"},
		"address": p.address, "token_file": at("keeper.token"),
	}}}
	manifest := []any{map[string]any{"tenant": p.tenant, "address": p.address, "token_file": at("gateway.token")}}
	err = errors.Join(
		private(at("keeper.token"), f.token+"\n", -1, -1), private(at("gateway.token"), f.token+"\n", uid, gid),
		privateJSON(at("definitions.json"), definitions, -1, -1), privateJSON(at("manifest.json"), manifest, uid, gid))
	if err != nil {
		return f, err
	}
	f.definitions, f.manifest = at("definitions.json"), at("manifest.json")
	return f, p.nameFiles(f)
}

// transportUser returns the ids that playgroundd runs with.
func (w *world) transportUser(ctx context.Context) (uid, gid int, err error) {
	s, err := w.status(ctx)
	if err != nil {
		return 0, 0, err
	}
	out, err := program(ctx, "/bin/ps", "-o", "uid=", "-o", "rgid=", "-p", strconv.Itoa(s.pid("playgroundd")))
	ids := numbersOf(out)
	if err == nil && len(ids) != 2 {
		err = fmt.Errorf("ps shows no user of playgroundd: %q", out)
	}
	if err != nil {
		return 0, 0, err
	}
	return ids[0], ids[1], nil
}

// private writes a file that is closed to all but its owner.
func private(path, text string, uid, gid int) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Chown(uid, gid), file.Close())
}

func privateJSON(path string, v any, uid, gid int) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return private(path, string(text)+"\n", uid, gid)
}

// httpSection is the line after which http.catalogue goes.
var httpSection = regexp.MustCompile(`(?m)^\[http\]\n`)

// nameFiles makes the configuration one of a gateway. The file's owner and mode stay.
func (p *facultyplay) nameFiles(f facultyFiles) error {
	text, err := os.ReadFile(p.options.config)
	if err != nil {
		return err
	}
	if len(httpSection.FindAll(text, -1)) != 1 {
		return fmt.Errorf("%s has no section [http] by itself", p.options.config)
	}
	changed := httpSection.ReplaceAllString(string(text), "[http]\ncatalogue = \"workers\"\n")
	changed = strings.TrimRight(changed, "\n") + fmt.Sprintf("\n\n[faculty]\ndefinitions = %q\n\n[gateway]\nmanifest = %q\n", f.definitions, f.manifest)
	return os.WriteFile(p.options.config, []byte(changed), 0o600)
}

// inside looks at where the worker is: the staged token, what processes show, and its limits.
func (p *facultyplay) inside(ctx context.Context) error {
	show := "axeww"
	if p.host.freebsd {
		show = "-axeww"
	}
	out, err := exec.CommandContext(ctx, "ps", show, "-o", "command=").Output()
	p.report.check(err == nil && len(out) > 0 && !strings.Contains(string(out), p.files.token), "faculty: no process shows the token in its arguments or environment", "none",
		"%d bytes of ps, in them: %v %v", len(out), strings.Contains(string(out), p.files.token), err)
	if !p.host.freebsd {
		p.report.skip("faculty: the staged token and the limits", "jexec and rctl are FreeBSD's")
		return nil
	}
	jail := p.options.prefix + "-" + p.tenant
	modes, err := program(ctx, "/usr/sbin/jexec", jail, "/usr/bin/stat", "-f", "%Lp %Su", "/var/run/playground-faculty", "/var/run/playground-faculty/token")
	p.report.check(err == nil && strings.Join(strings.Fields(modes), " ") == "700 root 400 root", "faculty: the staged token", "700 root 400 root", "%s %v", modes, err)
	rules, err := p.host.rules(jail + ".")
	p.report.check(err == nil && len(rules) > 0, "faculty: limits of the worker's leaf jail", "some", "%d %v", len(rules), err)
	return nil
}

// keeperSeen looks at playground-facultyd as the group start does at the others.
func (p *facultyplay) keeperSeen(ctx context.Context) {
	err := p.service(ctx, "playground_facultyd", "onestatus")
	p.report.check(err == nil, "faculty: service playground_facultyd onestatus", "exit 0", "%v", err)
	pids, err := p.host.instances("playground-facultyd")
	if err != nil || len(pids) != 1 {
		p.report.check(false, "faculty: who runs playground-facultyd", "one process of it", "%v %v", pids, err)
		return
	}
	out, err := program(ctx, "/bin/ps", "-o", "uid=", "-p", strconv.Itoa(pids[0]))
	p.report.check(err == nil && strings.TrimSpace(out) == strconv.Itoa(os.Geteuid()), "faculty: who runs playground-facultyd", fmt.Sprintf("uid %d", os.Geteuid()), "%s %v", out, err)
	if p.host.freebsd {
		out, err = program(ctx, "/usr/bin/proccontrol", "-m", "trace", "-q", "-p", strconv.Itoa(pids[0]))
		p.report.check(err == nil && strings.Contains(out, "disabled"), "faculty: playground-facultyd cannot be traced and leaves no core", "disabled", "%s %v", out, err)
	}
}

// latencyCalls is how many calls a spread is made of.
const latencyCalls = 60

// latency measures what the gateway adds to a call: the same call through it and, where the host reaches the worker's address,
// to the worker itself, in turns.
func (p *facultyplay) latency(ctx context.Context) {
	through, err := p.speak(ctx, protocols[1])
	if err != nil {
		p.report.note("gateway latency: %v", err)
		return
	}
	defer through.Close()
	ways := map[string]*mcp.ClientSession{"through the gateway": through}
	if straight, err := p.straight(ctx); err == nil {
		defer straight.Close()
		ways["straight to the worker"] = straight
	}
	times := map[string][]time.Duration{}
	for range latencyCalls {
		for name, session := range ways {
			took, err := timed(func() error {
				_, err := mcpclient.Call(ctx, session, "search_notes", map[string]any{"query": "no such note"})
				return err
			})
			if err != nil {
				p.report.note("gateway latency, %s: %v", name, err)
				return
			}
			times[name] = append(times[name], took)
		}
	}
	for name, list := range times {
		p.report.note("search_notes %s: %s", name, spreadOf(list))
	}
}

// straight connects to the worker itself, which is possible where its address is one of the host's.
func (p *facultyplay) straight(ctx context.Context) (*mcp.ClientSession, error) {
	conn, err := net.DialTimeout("tcp", p.address, time.Second)
	if err != nil {
		return nil, err
	}
	_ = conn.Close() // only to see whether it can be reached
	direct := *p
	w := *p.world
	w.options.endpoint = "http://" + p.address + "/mcp"
	direct.world, direct.created.Token = &w, p.files.token
	return direct.speak(ctx, protocols[1])
}
