package userapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"playground/fault"
	"playground/jail"
	"playground/localapi"
)

// Routes returns the socket's table. The metrics handler may be nil: there is no such route then.
func Routes(users Users, access localapi.Access, metrics http.Handler) []localapi.Route {
	h := handlers{users}
	routes := []localapi.Route{
		{Method: "POST", Path: "/v1/users", Access: access, Handle: h.create},
		{Method: "GET", Path: "/v1/users", Access: access, Handle: h.list},
		{Method: "GET", Path: "/v1/users/{tenant}", Access: access, Handle: answer(users.Get)},
		{Method: "DELETE", Path: "/v1/users/{tenant}", Access: access, Handle: h.destroy},
		{Method: "POST", Path: "/v1/users/{tenant}/attach", Access: access, Handle: answer(users.Attach)},
		{Method: "POST", Path: "/v1/users/{tenant}/detach", Access: access, Handle: answer(users.Detach)},
		{Method: "GET", Path: "/v1/users/{tenant}/token", Access: access, Handle: answer(users.Token)},
		{Method: "POST", Path: "/v1/users/{tenant}/token", Access: access, Handle: answer(users.ResetToken)},
		{Method: "DELETE", Path: "/v1/users/{tenant}/token", Access: access, Handle: h.revokeToken},
		{Method: "POST", Path: "/v1/operator/tokens", Access: access, Handle: h.createOperatorToken},
		{Method: "GET", Path: "/v1/operator/tokens", Access: access, Handle: h.operatorTokens},
		{Method: "DELETE", Path: "/v1/operator/tokens/{id}", Access: access, Handle: h.revokeOperatorToken},
		{Method: "GET", Path: "/v1/status", Access: access, Handle: h.status},
		{Method: "GET", Path: "/healthz", Access: access, Handle: h.health},
	}
	if metrics != nil {
		routes = append(routes, localapi.Route{Method: "GET", Path: "/metrics", Access: access, Handle: serve(metrics)})
	}
	return routes
}

type handlers struct{ users Users }

// answer is the handler of a call that takes a tenant's name and nothing else.
func answer[T any](call func(context.Context, string) (T, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := call(r.Context(), r.PathValue("tenant"))
		if err != nil {
			return err
		}
		return localapi.Reply(w, v)
	}
}

func serve(handler http.Handler) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		handler.ServeHTTP(w, r)
		return nil
	}
}

func (h handlers) create(w http.ResponseWriter, r *http.Request) error {
	var spec jail.ProvisionSpec
	if err := localapi.Decode(r, &spec); err != nil {
		return err
	}
	created, err := h.users.Create(r.Context(), spec)
	if err != nil {
		return err
	}
	return localapi.Reply(w, created)
}

func (h handlers) list(w http.ResponseWriter, r *http.Request) error {
	all, err := h.users.List(r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []User{} // "[]", not "null"
	}
	return localapi.Reply(w, all)
}

func (h handlers) destroy(w http.ResponseWriter, r *http.Request) error {
	force := false
	if text := r.URL.Query().Get("force"); text != "" {
		var err error
		if force, err = strconv.ParseBool(text); err != nil {
			return fault.New(fault.Invalid, "force must be true or false, not %.20q", text)
		}
	}
	if err := h.users.Destroy(r.Context(), r.PathValue("tenant"), force); err != nil {
		return err
	}
	return localapi.Reply(w, nil)
}

func (h handlers) revokeToken(w http.ResponseWriter, r *http.Request) error {
	if err := h.users.RevokeToken(r.Context(), r.PathValue("tenant")); err != nil {
		return err
	}
	return localapi.Reply(w, nil)
}

func (h handlers) status(w http.ResponseWriter, r *http.Request) error {
	status, err := h.users.Status(r.Context())
	if err != nil {
		return err
	}
	return localapi.Reply(w, status)
}

// health answers 503 unless tenants can work now.
func (h handlers) health(w http.ResponseWriter, r *http.Request) error {
	status, err := h.users.Status(r.Context())
	if err != nil {
		return err
	}
	if err := Healthy(status); err != nil {
		return err
	}
	return localapi.Reply(w, Health{Status: "ok"})
}

// Healthy returns why tenants cannot work in this state, or nil.
func Healthy(s Status) error {
	var down []string
	hint := ""
	for _, d := range s.Daemons {
		if d.State != Up {
			down = append(down, d.Name)
			hint = d.Hint
		}
	}
	switch {
	case len(down) > 0:
		return fault.New(fault.Unavailable, "not running: %s", strings.Join(down, ", ")).WithHint("%s", hint)
	case s.Lost != nil:
		return fault.New(fault.ProofLost, "clean-up was not proved; nothing starts").
			WithHint("see to the processes that `playground status` names, then run: playground ack")
	case s.Draining:
		return fault.New(fault.Unavailable, "the job daemon is stopping")
	}
	return nil
}
