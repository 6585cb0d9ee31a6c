package jobapi

import (
	"context"
	"net/http"

	"playground/localapi"
)

// Host is what the daemon does about the host, and not about one command.
type Host interface {
	// Clean clears away what an earlier daemon's commands left. What it did is told also with an error.
	Clean(ctx context.Context) (Cleaned, error)
	// Usage returns what running commands use; nil where nobody counts that.
	Usage(ctx context.Context) (Usage, error)
}

// Cleaned is what an earlier daemon had left.
type Cleaned struct {
	Jails  []string `json:"jails"`            // jails that were removed, proved empty
	Limits []string `json:"limits"`           // jails whose limits were removed
	Left   []string `json:"left"`             // jails that are not proved empty
	Error  string   `json:"error,omitempty"`  // what went wrong, beside what was done
	Reason string   `json:"reason,omitempty"` // why there is nothing to look for
}

// Usage is what the running commands of each tenant use together, by rctl(8) resource.
type Usage = map[string]map[string]int64

// An Access says who may use the daemon. Cleaning ends what others may not even see, and an acknowledgement says that somebody looked
// at the host, so both are for the operator.
type Access struct {
	Callers   localapi.Access // all other routes
	Operators localapi.Access // clean and ack
}

// hostRoutes returns the part of the table that is about the host.
func hostRoutes(host Host, access Access) []localapi.Route {
	h := hostHandlers{host}
	return []localapi.Route{
		{Method: "POST", Path: "/v1/clean", Access: access.Operators, Handle: h.clean},
		{Method: "GET", Path: "/v1/usage", Access: access.Callers, Handle: h.usage},
	}
}

type hostHandlers struct{ host Host }

// clean answers with what was done even if not all could be: the operator must learn both.
func (h hostHandlers) clean(w http.ResponseWriter, r *http.Request) error {
	cleaned, err := h.host.Clean(r.Context())
	if err != nil {
		cleaned.Error = err.Error()
	}
	for _, list := range []*[]string{&cleaned.Jails, &cleaned.Limits, &cleaned.Left} {
		if *list == nil {
			*list = []string{} // "[]", not "null"
		}
	}
	return localapi.Reply(w, cleaned)
}

func (h hostHandlers) usage(w http.ResponseWriter, r *http.Request) error {
	usage, err := h.host.Usage(r.Context())
	if err != nil {
		return err
	}
	if usage == nil {
		usage = Usage{} // "{}", not "null"
	}
	return localapi.Reply(w, usage)
}

// Clean clears away what an earlier daemon's commands left. An answer with Left or Error in it is not a success.
func (c *Client) Clean(ctx context.Context) (Cleaned, error) {
	var cleaned Cleaned
	err := c.api.Do(ctx, "POST", "/v1/clean", nil, &cleaned)
	return cleaned, err
}

// Usage returns what running commands use. It is empty where nobody counts that.
func (c *Client) Usage(ctx context.Context) (Usage, error) {
	var usage Usage
	err := c.api.Do(ctx, "GET", "/v1/usage", nil, &usage)
	return usage, err
}
