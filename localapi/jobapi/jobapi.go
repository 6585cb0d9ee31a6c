// Package jobapi is playground-reaperd's socket: its route table and the typed client of it. reaperd owns everything that
// runs, so jobs and their output outlive the programs that call it.
//
// Output is pulled: a poll names a cursor, and asking again with the same one is safe. Byte strings are base64 inside the
// JSON, but for input and output, which Client has sent raw beside it: that is ten times as fast.
package jobapi

import (
	"context"
	"net/http"
	"time"

	"playground/fault"
	"playground/job"
	"playground/localapi"
)

// Jobs is what the daemon does; *job.Manager does it.
type Jobs interface {
	Exec(ctx context.Context, spec job.Spec, head, tail int) (job.Execution, error)
	Start(spec job.Spec) (job.Status, error)
	Poll(ctx context.Context, tenant, id string, cursor int64, wait time.Duration) (job.Page, error)
	Cancel(tenant, id string) (job.Status, error)
	DropTenant(ctx context.Context, tenant string) error
	Status() job.HostStatus
	Ack() error
}

var _ Jobs = (*job.Manager)(nil)

// The requests. Durations that a caller waits are whole milliseconds.
type (
	execRequest struct {
		Spec job.Spec `json:"spec"`
		Head int      `json:"head"` // bytes of each stream to keep from its start
		Tail int      `json:"tail"` // and from its end
	}
	pollRequest struct {
		Tenant string `json:"tenant"`
		Cursor int64  `json:"cursor"`
		WaitMS int64  `json:"wait_ms,omitempty"`
	}
	cancelRequest struct {
		Tenant string `json:"tenant"`
	}
)

// Carriers: their large byte strings travel raw beside the JSON, as long as both ends are ours.
type (
	execution job.Execution
	page      job.Page
)

// Blobs names the input.
func (e *execRequest) Blobs() []*[]byte { return []*[]byte{&e.Spec.Stdin} }

// Blobs names what was kept of both streams.
func (e *execution) Blobs() []*[]byte {
	return []*[]byte{&e.Stdout.Head, &e.Stdout.Tail, &e.Stderr.Head, &e.Stderr.Tail}
}

// Blobs names every chunk's bytes.
func (p *page) Blobs() []*[]byte {
	blobs := make([]*[]byte, len(p.Chunks))
	for i := range p.Chunks {
		blobs[i] = &p.Chunks[i].Data
	}
	return blobs
}

// BodyBytes returns the bound for request bodies under these limits: input, command and arguments in base64, as a
// caller without blobs sends them, and room for the rest.
func BodyBytes(limits job.Limits) int64 {
	const rest = 64 << 10
	return int64(limits.CommandBytes+limits.StdinBytes)*4/3 + rest
}

// Routes returns the daemon's table.
func Routes(jobs Jobs, host Host, access Access) []localapi.Route {
	h := handlers{jobs}
	return append(hostRoutes(host, access), []localapi.Route{
		{Method: "POST", Path: "/v1/exec", Access: access.Callers, Handle: h.exec},
		{Method: "POST", Path: "/v1/jobs", Access: access.Callers, Handle: h.start},
		{Method: "POST", Path: "/v1/jobs/{id}/poll", Access: access.Callers, Handle: h.poll},
		{Method: "POST", Path: "/v1/jobs/{id}/cancel", Access: access.Callers, Handle: h.cancel},
		{Method: "DELETE", Path: "/v1/tenants/{tenant}/jobs", Access: access.Callers, Handle: h.dropTenant},
		{Method: "GET", Path: "/v1/status", Access: access.Callers, Handle: h.status},
		{Method: "POST", Path: "/v1/ack", Access: access.Operators, Handle: h.ack},
	}...)
}

type handlers struct{ jobs Jobs }

// exec holds the request open until the command has ended. A caller that vanishes cancels the command.
func (h handlers) exec(w http.ResponseWriter, r *http.Request) error {
	var in execRequest
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	done, err := h.jobs.Exec(r.Context(), in.Spec, in.Head, in.Tail)
	if err != nil {
		return err
	}
	return localapi.ReplyBlobs(w, r, (*execution)(&done))
}

func (h handlers) start(w http.ResponseWriter, r *http.Request) error {
	var spec job.Spec
	if err := localapi.Decode(r, &spec); err != nil {
		return err
	}
	status, err := h.jobs.Start(spec)
	if err != nil {
		return err
	}
	return localapi.Reply(w, status)
}

func (h handlers) poll(w http.ResponseWriter, r *http.Request) error {
	var in pollRequest
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	const most = int64(24 * time.Hour / time.Millisecond) // far over any configured wait; keeps the product in range
	if in.WaitMS < 0 || in.WaitMS > most {
		return fault.New(fault.Invalid, "wait_ms must be between 0 and %d", most)
	}
	wait := time.Duration(in.WaitMS) * time.Millisecond
	news, err := h.jobs.Poll(r.Context(), in.Tenant, r.PathValue("id"), in.Cursor, wait)
	if err != nil {
		return err
	}
	return localapi.ReplyBlobs(w, r, (*page)(&news))
}

func (h handlers) cancel(w http.ResponseWriter, r *http.Request) error {
	var in cancelRequest
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	status, err := h.jobs.Cancel(in.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	return localapi.Reply(w, status)
}

func (h handlers) dropTenant(w http.ResponseWriter, r *http.Request) error {
	if err := h.jobs.DropTenant(r.Context(), r.PathValue("tenant")); err != nil {
		return err
	}
	return localapi.Reply(w, nil)
}

func (h handlers) status(w http.ResponseWriter, _ *http.Request) error {
	return localapi.Reply(w, h.jobs.Status())
}

func (h handlers) ack(w http.ResponseWriter, _ *http.Request) error {
	if err := h.jobs.Ack(); err != nil {
		return err
	}
	return localapi.Reply(w, nil)
}
