// Package serviceapi is the part of playground-reaperd's socket that is about services: programs that the host itself runs in
// tenants' sandboxes, without the limits and the time of commands. It has the routes and their client. A service's output is
// pulled, as a job's is; it and its end are known until playground-reaperd ends, and all services end with that.
package serviceapi

import (
	"context"
	"net/http"
	"time"

	"playground/fault"
	"playground/job"
	"playground/localapi"
)

// A Service is a service as the kernel knows it.
type Service struct {
	job.Service
	Pid   int              `json:"pid,omitempty"`   // of its program, on the host; 0 when it does not run
	Usage map[string]int64 `json:"usage,omitempty"` // of all its processes, by rctl(8) resource
}

// Services is what the daemon does; a *job.Manager does it, but for the processes in List.
type Services interface {
	StartService(spec job.ServiceSpec) (job.Service, error)
	PollService(ctx context.Context, id string, cursor int64, wait time.Duration) (job.Page, error)
	StopService(ctx context.Context, id string) (job.Result, error)
	List() []Service
}

// The requests.
type (
	startRequest struct {
		Tenant string   `json:"tenant"`
		Name   string   `json:"name"`
		Argv   []string `json:"argv"`
		Env    []string `json:"env"`
	}
	pollRequest struct {
		Cursor int64 `json:"cursor"`
		WaitMS int64 `json:"wait_ms,omitempty"`
	}
)

// Routes returns the part of the daemon's table. What it starts is bound by no limit of the tenant, so it is for operators: root and
// the daemon's own user.
func Routes(s Services, operators localapi.Access) []localapi.Route {
	h := handlers{s}
	return []localapi.Route{
		{Method: "POST", Path: "/v1/services", Access: operators, Handle: h.start},
		{Method: "GET", Path: "/v1/services", Access: operators, Handle: h.list},
		{Method: "POST", Path: "/v1/services/{id}/poll", Access: operators, Handle: h.poll},
		{Method: "POST", Path: "/v1/services/{id}/stop", Access: operators, Handle: h.stop},
	}
}

type handlers struct{ s Services }

func (h handlers) start(w http.ResponseWriter, r *http.Request) error {
	var in startRequest
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	service, err := h.s.StartService(job.ServiceSpec(in))
	if err != nil {
		return err
	}
	return localapi.Reply(w, service)
}

func (h handlers) list(w http.ResponseWriter, _ *http.Request) error {
	list := h.s.List()
	if list == nil {
		list = []Service{} // "[]", not "null"
	}
	return localapi.Reply(w, list)
}

func (h handlers) poll(w http.ResponseWriter, r *http.Request) error {
	var in pollRequest
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	const most = int64(time.Hour / time.Millisecond) // over any configured wait; keeps the product in range
	if in.WaitMS < 0 || in.WaitMS > most {
		return fault.New(fault.Invalid, "wait_ms must be between 0 and %d", most)
	}
	page, err := h.s.PollService(r.Context(), r.PathValue("id"), in.Cursor, time.Duration(in.WaitMS)*time.Millisecond)
	if err != nil {
		return err
	}
	return localapi.Reply(w, page)
}

// stop holds the request open until nothing of the service is left. The service ends also when the caller leaves.
func (h handlers) stop(w http.ResponseWriter, r *http.Request) error {
	if err := localapi.Decode(r, &struct{}{}); err != nil {
		return err
	}
	result, err := h.s.StopService(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return localapi.Reply(w, result)
}

// A Client calls playground-reaperd.
type Client struct{ api *localapi.Client }

// NewClient returns a client of the daemon at this socket.
func NewClient(socket string) *Client {
	api := localapi.NewClient(socket)
	api.Daemon = "playground-reaperd"
	return &Client{api}
}

// Disconnect gives up idle connections.
func (c *Client) Disconnect() { c.api.Close() }

// Start starts a service and returns at once.
func (c *Client) Start(ctx context.Context, spec job.ServiceSpec) (job.Service, error) {
	var service job.Service
	err := c.api.Do(ctx, "POST", "/v1/services", startRequest(spec), &service)
	return service, err
}

// List returns the running services and those that ended last.
func (c *Client) List(ctx context.Context) ([]Service, error) {
	var list []Service
	err := c.api.Do(ctx, "GET", "/v1/services", nil, &list)
	return list, err
}

// Poll returns a service's output from cursor on, waiting up to wait for news; see job.Page.
func (c *Client) Poll(ctx context.Context, id string, cursor int64, wait time.Duration) (job.Page, error) {
	in := pollRequest{Cursor: cursor, WaitMS: int64((wait + time.Millisecond - 1) / time.Millisecond)}
	var page job.Page
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/services/%s/poll", id), in, &page)
	return page, err
}

// Stop ends a service, waits for the proof that nothing of it is left, and returns its end.
func (c *Client) Stop(ctx context.Context, id string) (job.Result, error) {
	var result job.Result
	err := c.api.Do(ctx, "POST", localapi.Join("/v1/services/%s/stop", id), struct{}{}, &result)
	return result, err
}
