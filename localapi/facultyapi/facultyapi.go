// Package facultyapi is playground-facultyd's socket: its route table and the typed client of it. The operator starts, stops and
// looks at workers through it; the transport, which alone speaks to workers, sees which there are and reports their health.
package facultyapi

import (
	"context"
	"net/http"
	"strconv"

	"playground/faculty"
	"playground/fault"
	"playground/localapi"
)

// Workers is what the daemon does; *faculty.Manager does it.
type Workers interface {
	List(ctx context.Context) (faculty.Listing, error)
	Start(ctx context.Context, id string) (faculty.Worker, error)
	Stop(ctx context.Context, id string) (faculty.Worker, error)
	Restart(ctx context.Context, id string) (faculty.Worker, error)
	Log(id string, from int64) (faculty.LogPage, error)
	Report(id string, health faculty.Health) error
}

// An Access says who may use the daemon.
type Access struct {
	Callers   localapi.Access // list and health
	Operators localapi.Access // all other routes
}

// Routes returns the daemon's table.
func Routes(workers Workers, access Access) []localapi.Route {
	h := handlers{workers}
	return []localapi.Route{
		{Method: "GET", Path: "/v1/workers", Access: access.Callers, Handle: h.list},
		{Method: "POST", Path: "/v1/workers/{id}/health", Access: access.Callers, Handle: h.report},
		{Method: "POST", Path: "/v1/workers/{id}/start", Access: access.Operators, Handle: change(workers.Start)},
		{Method: "POST", Path: "/v1/workers/{id}/stop", Access: access.Operators, Handle: change(workers.Stop)},
		{Method: "POST", Path: "/v1/workers/{id}/restart", Access: access.Operators, Handle: change(workers.Restart)},
		{Method: "GET", Path: "/v1/workers/{id}/log", Access: access.Operators, Handle: h.log},
	}
}

type handlers struct{ workers Workers }

func (h handlers) list(w http.ResponseWriter, r *http.Request) error {
	listing, err := h.workers.List(r.Context())
	if err != nil {
		return err
	}
	if listing.Workers == nil {
		listing.Workers = []faculty.Worker{} // "[]", not "null"
	}
	return localapi.Reply(w, listing)
}

func (h handlers) report(w http.ResponseWriter, r *http.Request) error {
	var health faculty.Health
	if err := localapi.Decode(r, &health); err != nil {
		return err
	}
	if err := h.workers.Report(r.PathValue("id"), health); err != nil {
		return err
	}
	return localapi.Reply(w, nil)
}

// change answers with the worker as it is once the change has been made, or has met what keeps it from being made.
func change(act func(context.Context, string) (faculty.Worker, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := localapi.Decode(r, &struct{}{}); err != nil {
			return err
		}
		worker, err := act(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return localapi.Reply(w, worker)
	}
}

func (h handlers) log(w http.ResponseWriter, r *http.Request) error {
	from, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	if err != nil {
		return fault.New(fault.Invalid, "from must be a number")
	}
	page, err := h.workers.Log(r.PathValue("id"), from)
	if err != nil {
		return err
	}
	return localapi.Reply(w, page)
}
