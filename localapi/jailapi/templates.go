package jailapi

import (
	"context"
	"net/http"

	"playground/jail"
	"playground/localapi"
)

// Templates keeps what FreeBSD sandboxes are made from; *jail.Templates does it.
type Templates interface {
	Create(ctx context.Context, name, source string) (jail.Template, error)
	List(ctx context.Context) ([]jail.Template, error)
	Destroy(ctx context.Context, name string) error
}

// createTemplate is the request of a creation. Source is a path of the host, which the daemon reads as root: the route is for
// the operator only.
type createTemplate struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

// templateRoutes returns the part of the table that is about templates.
func templateRoutes(t Templates, access Access) []localapi.Route {
	h := templateHandlers{t}
	return []localapi.Route{
		{Method: "POST", Path: "/v1/templates", Access: access.Operators, Handle: h.create},
		{Method: "GET", Path: "/v1/templates", Access: access.Callers, Handle: h.list},
		{Method: "DELETE", Path: "/v1/templates/{name}", Access: access.Operators, Handle: h.destroy},
	}
}

type templateHandlers struct{ t Templates }

// create holds the request open until the template is complete, which takes minutes. A caller that vanishes undoes it.
func (h templateHandlers) create(w http.ResponseWriter, r *http.Request) error {
	var in createTemplate
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	template, err := h.t.Create(r.Context(), in.Name, in.Source)
	if err != nil {
		return err
	}
	return localapi.Reply(w, template)
}

func (h templateHandlers) list(w http.ResponseWriter, r *http.Request) error {
	all, err := h.t.List(r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []jail.Template{} // "[]", not "null"
	}
	return localapi.Reply(w, all)
}

func (h templateHandlers) destroy(w http.ResponseWriter, r *http.Request) error {
	if err := h.t.Destroy(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	return localapi.Reply(w, nil)
}

// CreateTemplate makes a template from an archive or a folder: all of it or nothing. The source is an absolute path.
func (c *Client) CreateTemplate(ctx context.Context, name, source string) (jail.Template, error) {
	var template jail.Template
	err := c.api.Do(ctx, "POST", "/v1/templates", createTemplate{name, source}, &template)
	return template, err
}

// Templates returns every template, by name.
func (c *Client) Templates(ctx context.Context) ([]jail.Template, error) {
	var all []jail.Template
	err := c.api.Do(ctx, "GET", "/v1/templates", nil, &all)
	return all, err
}

// DestroyTemplate removes a template, or returns fault.Busy while sandboxes stand on it.
func (c *Client) DestroyTemplate(ctx context.Context, name string) error {
	return c.api.Do(ctx, "DELETE", localapi.Join("/v1/templates/%s", name), nil, nil)
}
