package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"playground/jail"
	"playground/localapi/userapi"
)

// Gateway is what forwarding to native workers costs.
type Gateway struct {
	Rows    []GatewayRow `json:"rows"`
	Skipped []string     `json:"skipped,omitempty"`
	// StreamMemory is what 100 open event streams add to playgroundd, in MB; 0 = not measured.
	StreamMemory float64 `json:"mb_for_100_streams"`
}

// A GatewayRow is one way to a worker under one load.
type GatewayRow struct {
	Row
	Added50 float64 `json:"added_p50_ms"` // over the direct way
	Added99 float64 `json:"added_p99_ms"`
	// ToNginx compares the added p50 with what nginx adds, round by round.
	ToNginx *Ratio `json:"added_p50_to_nginx,omitempty"`
}

// The ways to a worker.
const (
	wayDirect  = "direct"
	wayNginx   = "nginx"
	wayGateway = "gateway"
)

// workerTenants have a worker each; a tenant may have only so many streams.
const workerTenants = 2

// measureGateway starts the suite once more, in front of workers of our own, and compares the ways to them.
func measureGateway(ctx context.Context, o Options) (report Gateway, err error) {
	workers, err := startWorkers(workerTenants)
	if err != nil {
		return report, err
	}
	defer workers.close()
	if o.State != "" {
		o.State += "-workers"
	}
	s, err := startStage(ctx, o, workers.configure)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	tokens, err := s.workerTenants(ctx)
	if err != nil {
		return report, err
	}
	gateway := "http://" + s.suite.Config.HTTP.Listen + "/mcp"
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	defer client.CloseIdleConnections()
	o.Say("memory, 100 streams") // first, because a load leaves room behind that streams would use
	if report.StreamMemory, err = streamMemory(ctx, client, gateway, tokens); err != nil {
		return report, err
	}
	ways := []way{
		{name: wayDirect, words: "directly", call: listTools(client, workers.url(0), workers.token(0))},
		{name: wayGateway, words: "through playgroundd", call: listTools(client, gateway, tokens[0])},
	}
	switch proxy, err := startNginx(ctx, s.suite.Dir, workers.address(0)); {
	case errors.Is(err, errNoNginx):
		report.Skipped = append(report.Skipped, err.Error())
	case err != nil:
		return report, err
	default:
		defer proxy.stop()
		ways = append(ways, way{name: wayNginx, words: "through nginx, a plain proxy", call: listTools(client, proxy.url, workers.token(0))})
	}
	report.Rows, err = compareWays(ctx, ways, o)
	return report, err
}

// workerTenants makes the tenants and returns their tokens. They share the host's network, where the workers are.
func (s *stage) workerTenants(ctx context.Context) ([]string, error) {
	operator := userapi.NewClient(s.suite.Config.OperatorSocket())
	defer operator.Disconnect()
	var tokens []string
	for i := range workerTenants {
		created, err := operator.Create(ctx, jail.ProvisionSpec{Tenant: workerTenant(i), Network: sharedNetwork})
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, created.Token)
	}
	return tokens, nil
}

func workerTenant(i int) string { return fmt.Sprintf("tenant-%d", i+1) }

// listTools returns a call of tools/list at an address.
func listTools(client *http.Client, url, token string) func(context.Context, int) error {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	return func(ctx context.Context, _ int) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header = workerHeaders(token)
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var got bytes.Buffer
		if _, err := got.ReadFrom(response.Body); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK || got.String() != toolList {
			return fmt.Errorf("%s answered with status %d: %.200s", url, response.StatusCode, got.String())
		}
		return nil
	}
}

func workerHeaders(token string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {stateless}, "Mcp-Method": {"tools/list"}}
}

// compareWays times all ways in turns.
func compareWays(ctx context.Context, ways []way, o Options) (rows []GatewayRow, err error) {
	var cells []*cell
	for _, load := range []int{1, 8} {
		for _, w := range ways {
			cells = append(cells, &cell{way: w, load: load})
		}
	}
	if err := takeTurns(ctx, cells, o, "workers", o.Time/3); err != nil {
		return nil, err
	}
	for _, c := range cells {
		row, direct := GatewayRow{Row: c.row()}, find(cells, wayDirect, c.load).row()
		row.Added50, row.Added99 = row.P50-direct.P50, row.P99-direct.P99
		if c.way.name == wayGateway {
			row.ToNginx = added(c, find(cells, wayNginx, c.load), find(cells, wayDirect, c.load))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// added compares what two ways add to a base; nil if there is nothing to compare.
func added(c, other, base *cell) *Ratio {
	if other == nil || base == nil {
		return nil
	}
	var each []float64
	for i := range c.rounds {
		plain := quantile(base.rounds[i], 50)
		if more := quantile(other.rounds[i], 50) - plain; more > 0 {
			each = append(each, float64(quantile(c.rounds[i], 50)-plain)/float64(more))
		}
	}
	if len(each) == 0 {
		return nil
	}
	slices.Sort(each)
	return &Ratio{Median: median(each), Low: each[0], High: each[len(each)-1]}
}

// streamMemory opens 100 event streams and returns by how much playgroundd grew.
func streamMemory(ctx context.Context, client *http.Client, url string, tokens []string) (float64, error) {
	const streams = 100
	before, err := daemonMemory(ctx)
	if err != nil || before == 0 {
		return 0, err
	}
	var open []io.Closer
	defer func() {
		for _, body := range open {
			_ = body.Close() // ends the stream
		}
	}()
	for i := range streams {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		r.Header = workerHeaders(tokens[i%len(tokens)])
		response, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		open = append(open, response.Body)
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("a stream was refused with status %d", response.StatusCode)
		}
	}
	after, err := daemonMemory(ctx)
	return max(after-before, 0), err
}

// daemonMemory is playgroundd's resident memory when it is steady; 0 where the platform does not tell.
func daemonMemory(ctx context.Context) (float64, error) {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	all, err := family()
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	for _, p := range all {
		if p.name == "playgroundd" {
			return p.resident, nil
		}
	}
	return 0, err
}

// configure makes a suite's configuration one that forwards to these workers.
func (w *workers) configure(dir, text string) (string, error) {
	var manifest []map[string]string
	for i := range w.servers {
		file := filepath.Join(dir, workerTenant(i)+".token")
		if err := os.WriteFile(file, []byte(w.token(i)), 0o600); err != nil {
			return "", fmt.Errorf("cannot write a token: %w", err)
		}
		manifest = append(manifest, map[string]string{"tenant": workerTenant(i), "address": w.address(i), "token_file": file})
	}
	list, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "workers.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		return "", fmt.Errorf("cannot write the manifest: %w", err)
	}
	return strings.Replace(text, "[http]\n", "[http]\ncatalogue = \"workers\"\n", 1) + fmt.Sprintf("\n[gateway]\nmanifest = %q\n", path), nil
}
