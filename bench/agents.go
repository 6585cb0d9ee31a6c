package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"playground/jail"
	"playground/localapi/userapi"
	"playground/mcpclient"
	"playground/version"
)

// The protocol versions that are measured: the newest of each era.
const (
	stateless = "2026-07-28"
	sessions  = "2025-11-25"
)

// tenants is how many share the highest load: one tenant runs 8 commands at most.
const tenants = 4

// An agent is one tenant with a client of each era.
type agent struct {
	session string
	clients map[string]*mcp.ClientSession
	http    *http.Transport
}

type agents []*agent

// agents makes the tenants, connects their clients and opens their sessions.
func (s *stage) agents(ctx context.Context) (agents, error) {
	operator := userapi.NewClient(s.suite.Config.OperatorSocket())
	defer operator.Disconnect()
	var all agents
	for i := range tenants {
		created, err := operator.Create(ctx, jail.ProvisionSpec{Tenant: fmt.Sprintf("tenant-%d", i+1)})
		if err != nil {
			all.close()
			return nil, err
		}
		a := &agent{clients: map[string]*mcp.ClientSession{}}
		// As many idle connections as there are calls at once, or the client would open and close one for each call.
		a.http = &http.Transport{MaxIdleConnsPerHost: 64}
		all = append(all, a)
		if err := a.connect(ctx, "http://"+s.suite.Config.HTTP.Listen+"/mcp", created.Token); err != nil {
			all.close()
			return nil, err
		}
	}
	return all, nil
}

func (a *agent) connect(ctx context.Context, endpoint, token string) error {
	client := &http.Client{Transport: mcpclient.Bearer{Token: token, Next: a.http}}
	for _, era := range []string{stateless, sessions} {
		session, err := mcp.NewClient(&mcp.Implementation{Name: "playground-bench", Version: version.String()},
			&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}).
			Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: client}, &mcp.ClientSessionOptions{ProtocolVersion: era})
		if err != nil {
			return fmt.Errorf("cannot connect a client of MCP %s: %w", era, err)
		}
		a.clients[era] = session
		if got := session.InitializeResult().ProtocolVersion; got != era {
			return fmt.Errorf("the server speaks MCP %s where %s was asked for", got, era)
		}
	}
	var opened struct {
		Session string `json:"session"`
	}
	if err := a.call(ctx, stateless, "open_session", map[string]any{}, &opened); err != nil {
		return err
	}
	a.session = opened.Session
	return nil
}

func (all agents) close() {
	for _, a := range all {
		for _, client := range a.clients {
			_ = client.Close() // the suite stops next
		}
		a.http.CloseIdleConnections()
	}
}

// call calls a tool and decodes its structured answer into v.
func (a *agent) call(ctx context.Context, era, tool string, args map[string]any, v any) error {
	result, err := a.clients[era].CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return fmt.Errorf("cannot call %s: %w", tool, err)
	}
	if result.IsError {
		text, _ := json.Marshal(result.Content) // for an error's text
		return fmt.Errorf("%s was refused: %s", tool, text)
	}
	data, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", tool, err)
	}
	return json.Unmarshal(data, v)
}

// exec is one round trip, login shell and all.
func (a *agent) exec(ctx context.Context, era string) error {
	result, err := a.clients[era].CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"session": a.session, "command": "true"}})
	if err != nil {
		return fmt.Errorf("cannot call exec: %w", err)
	}
	answer, _ := result.StructuredContent.(map[string]any)
	if code, ok := answer["exit_code"].(float64); result.IsError || !ok || code != 0 {
		text, _ := json.Marshal(result.Content) // for an error's text
		return fmt.Errorf("exec did not end well: %s", text)
	}
	return nil
}

// A handle is one job of one agent.
type handle struct {
	agent *agent
	id    string
}

// startJobs starts count jobs, spread over the agents.
func (all agents) startJobs(ctx context.Context, count int, command string) ([]handle, error) {
	var jobs []handle
	for i := range count {
		a := all[i%len(all)]
		id, err := a.startJob(ctx, command)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, handle{a, id})
	}
	return jobs, nil
}

func (a *agent) startJob(ctx context.Context, command string) (string, error) {
	var started struct {
		JobID string `json:"job_id"`
	}
	err := a.call(ctx, stateless, "job_exec", map[string]any{"session": a.session, "command": command}, &started)
	return started.JobID, err
}

// endJobs cancels jobs and polls each to its end, so that they hold no places any more.
func (all agents) endJobs(ctx context.Context, jobs []handle) error {
	for _, j := range jobs {
		var status struct{}
		if err := j.agent.call(ctx, stateless, "job_cancel", map[string]any{"job_id": j.id}, &status); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		if err := j.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A page is what matters here of one poll's answer.
type page struct {
	next    int64
	dropped int64
	end     map[string]any // the job's result in its last page
}

// poll takes the page after cursor. It reads the decoded answer as it is: decoding it again into a struct would cost the
// measured poller more than all the rest.
func (j handle) poll(ctx context.Context, cursor int64, wait time.Duration) (page, error) {
	result, err := j.agent.clients[stateless].CallTool(ctx, &mcp.CallToolParams{Name: "job_poll",
		Arguments: map[string]any{"job_id": j.id, "cursor": cursor, "wait_ms": wait.Milliseconds()}})
	if err != nil {
		return page{}, fmt.Errorf("cannot call job_poll: %w", err)
	}
	answer, _ := result.StructuredContent.(map[string]any)
	next, known := answer["next_cursor"].(float64)
	if result.IsError || !known {
		return page{}, errors.New("job_poll was refused")
	}
	dropped, _ := answer["dropped_bytes"].(float64)
	end, _ := answer["result"].(map[string]any)
	return page{next: int64(next), dropped: int64(dropped), end: end}, nil
}

func (j handle) wait(ctx context.Context) error {
	for cursor := int64(0); ; {
		p, err := j.poll(ctx, cursor, 5*time.Second)
		if err != nil || p.end != nil {
			return err
		}
		cursor = p.next
	}
}
