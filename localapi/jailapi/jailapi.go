// Package jailapi is playground-jaild's socket: its route table and the typed client of it. jaild owns every tenant's
// sandbox, so whoever opens, closes or destroys one, on this host, comes through here.
package jailapi

import (
	"context"
	"net/http"
	"os"

	"playground/fault"
	"playground/jail"
	"playground/localapi"
)

// Sandboxes is what the daemon does; *jail.Manager and Client do it.
type Sandboxes interface {
	Provision(ctx context.Context, spec jail.ProvisionSpec) (jail.Sandbox, error)
	List(ctx context.Context) ([]jail.Sandbox, error)
	Get(ctx context.Context, tenant string) (jail.Sandbox, error)
	Destroy(ctx context.Context, tenant string) error
	Open(ctx context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error)
	Close(ctx context.Context, tenant string) (jail.Sandbox, error)
	Attachment(ctx context.Context, tenant string) (jail.Attachment, error)
	// Connect returns a new connection to the tenant's holder, through which commands are started inside (Linux).
	Connect(ctx context.Context, tenant string) (*os.File, error)
	// Dial returns a TCP connection to a loopback address of the sandbox's own network (Linux).
	Dial(ctx context.Context, tenant, address string) (*os.File, error)
}

// An Access says who may use the daemon. Runners may do more than Callers: an attachment and a holder's connection let
// their bearer run commands past every job limit, so they are for the process that runs things and nobody else. Operators
// name files of the host, so the transport's user is not among them.
type Access struct {
	Callers   localapi.Access // all other routes
	Runners   localapi.Access // attachment and connect
	Operators localapi.Access // making and destroying templates
}

// Routes returns the daemon's table.
func Routes(s Sandboxes, t Templates, access Access) []localapi.Route {
	h := handlers{s: s, operators: access.Operators}
	return append(templateRoutes(t, access), []localapi.Route{
		{Method: "POST", Path: "/v1/sandboxes", Access: access.Callers, Handle: h.provision},
		{Method: "GET", Path: "/v1/sandboxes", Access: access.Callers, Handle: h.list},
		{Method: "GET", Path: "/v1/sandboxes/{tenant}", Access: access.Callers, Handle: h.get},
		{Method: "DELETE", Path: "/v1/sandboxes/{tenant}", Access: access.Callers, Handle: h.destroy},
		{Method: "POST", Path: "/v1/sandboxes/{tenant}/open", Access: access.Callers, Handle: h.open},
		{Method: "POST", Path: "/v1/sandboxes/{tenant}/close", Access: access.Callers, Handle: h.close},
		{Method: "GET", Path: "/v1/sandboxes/{tenant}/attachment", Access: access.Runners, Handle: h.attachment},
		{Method: "POST", Path: "/v1/sandboxes/{tenant}/connect", Access: access.Runners, Handle: h.connect},
		{Method: "POST", Path: "/v1/sandboxes/{tenant}/dial", Access: access.Callers, Handle: h.dial},
	}...)
}

type handlers struct {
	s         Sandboxes
	operators localapi.Access
}

func (h handlers) provision(w http.ResponseWriter, r *http.Request) error {
	var spec jail.ProvisionSpec
	if err := localapi.Decode(r, &spec); err != nil {
		return err
	}
	if spec.Source != "" { // it shows a folder of the host
		if h.operators == nil {
			return fault.New(fault.Denied, "nobody may make a builder")
		}
		if err := h.operators(localapi.PeerOf(r.Context())); err != nil {
			return err
		}
	}
	sandbox, err := h.s.Provision(r.Context(), spec)
	if err != nil {
		return err
	}
	return localapi.Reply(w, sandbox)
}

func (h handlers) list(w http.ResponseWriter, r *http.Request) error {
	all, err := h.s.List(r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []jail.Sandbox{} // "[]", not "null"
	}
	return localapi.Reply(w, all)
}

func (h handlers) get(w http.ResponseWriter, r *http.Request) error {
	sandbox, err := h.s.Get(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	return localapi.Reply(w, sandbox)
}

func (h handlers) destroy(w http.ResponseWriter, r *http.Request) error {
	if err := h.s.Destroy(r.Context(), r.PathValue("tenant")); err != nil {
		return err
	}
	return localapi.Reply(w, nil)
}

func (h handlers) open(w http.ResponseWriter, r *http.Request) error {
	var options jail.OpenOptions
	if err := localapi.Decode(r, &options); err != nil {
		return err
	}
	sandbox, err := h.s.Open(r.Context(), r.PathValue("tenant"), options)
	if err != nil {
		return err
	}
	return localapi.Reply(w, sandbox)
}

func (h handlers) close(w http.ResponseWriter, r *http.Request) error {
	sandbox, err := h.s.Close(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	return localapi.Reply(w, sandbox)
}

func (h handlers) attachment(w http.ResponseWriter, r *http.Request) error {
	attachment, err := h.s.Attachment(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	return localapi.Reply(w, attachment)
}

// A dialRequest says where to connect to.
type dialRequest struct {
	Address string `json:"address"`
}

// dial answers as connect does.
func (h handlers) dial(w http.ResponseWriter, r *http.Request) error {
	var in dialRequest
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	return passFile(w, r, func() (*os.File, error) { return h.s.Dial(r.Context(), r.PathValue("tenant"), in.Address) })
}

// connect answers with a raw connection that carries one byte and the descriptor. Refusals come before the upgrade, as
// ordinary errors.
func (h handlers) connect(w http.ResponseWriter, r *http.Request) error {
	return passFile(w, r, func() (*os.File, error) { return h.s.Connect(r.Context(), r.PathValue("tenant")) })
}

func passFile(w http.ResponseWriter, r *http.Request, get func() (*os.File, error)) error {
	file, err := get()
	if err != nil {
		return err
	}
	defer file.Close()
	conn, err := localapi.Hijack(w, r)
	if err != nil {
		return err
	}
	defer conn.Close()
	return localapi.SendFiles(conn, []byte{0}, file)
}
