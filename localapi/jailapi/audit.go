package jailapi

import (
	"context"
	"net/http"

	"playground/localapi"
)

// AuditRoutes returns the part of the table that is about the record log's audit files. Seal makes one of them append-only, by its
// name, which a caller chooses.
func AuditRoutes(seal func(file string) error, access Access) []localapi.Route {
	return []localapi.Route{{Method: "POST", Path: "/v1/audit/{file}/seal", Access: access.Callers, Handle: func(w http.ResponseWriter, r *http.Request) error {
		if err := seal(r.PathValue("file")); err != nil {
			return err
		}
		return localapi.Reply(w, nil)
	}}}
}

// SealAudit makes an audit file of the record log append-only, which only root may do. Sealing it again does nothing.
func (c *Client) SealAudit(ctx context.Context, file string) error {
	return c.api.Do(ctx, "POST", localapi.Join("/v1/audit/%s/seal", file), nil, nil)
}
