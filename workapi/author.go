package workapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"playground/record"
	"playground/tenancy"
	"playground/workloop"
	"playground/workloop/loop"
)

// userDID begins the DIDs of tenants: tenant NAME is did:sync:user:NAME.
const userDID = "did:sync:user:"

// A caller is for whom a request is made.
type caller struct {
	did      string
	operator bool // the operator in person: not in the name of a tenant
}

// caller returns for whom a request is made: the operator, or the tenant that the actor header names.
func (a *API) caller(r *http.Request) (caller, error) {
	did := ""
	for _, name := range []string{ActorHeader, ProtocolHeader} {
		for _, value := range r.Header.Values(name) {
			if value == "" { // somebody meant to name a member: it must not become the operator
				return caller{}, refuse(http.StatusBadRequest, codeInvalidQuery, "the header %s is empty", name)
			}
			if did != "" && value != did {
				return caller{}, refuse(http.StatusBadRequest, codeInvalidQuery, "the actor headers name different actors")
			}
			did = value
		}
	}
	if did == "" || did == a.options.Operator {
		return caller{a.options.Operator, true}, nil
	}
	return caller{did: did}, a.member(r.Context(), did)
}

// member refuses a DID that is not a tenant's.
func (a *API) member(ctx context.Context, did string) error {
	name, user := strings.CutPrefix(did, userDID)
	if user && tenancy.ValidName(name) == nil {
		exists, err := a.options.Tenant(ctx, name)
		if err != nil || exists {
			return err
		}
	}
	return hinted(refuse(http.StatusForbidden, codeNotCovered, "%.100q is not a member of this instance", did),
		"tenant NAME is %sNAME; make one: playground user create NAME", userDID)
}

// principal decides for whom a run is: the caller, or, for the operator, the tenant that the request names.
func (a *API) principal(r *http.Request, named string) (principal string, who caller, err error) {
	who, err = a.caller(r)
	switch {
	case err != nil:
		return "", who, err
	case named == "" || named == who.did:
		return who.did, who, nil
	case !who.operator:
		return "", who, refuse(http.StatusForbidden, codeNotCovered, "%q cannot start runs for %.100q", who.did, named)
	}
	return named, who, a.member(r.Context(), named)
}

// mayWrite refuses what a client may not write, whoever it is.
func (a *API) mayWrite(who caller, r record.Record) error {
	if !who.operator && r.Actor != who.did {
		return refuse(http.StatusForbidden, codeScope, "%q cannot write as %.100q", who.did, r.Actor)
	}
	reserved := r.Thread == record.ConfigThread
	if r.Actor == record.EngineDID && !reserved {
		// The kernel signs what it writes; its name must not be lent to others.
		return hinted(refuse(http.StatusForbidden, codeKindRefused, "only configuration may be written as %s", record.EngineDID),
			"name another actor, or none: then the author is %s", who.did)
	}
	if reserved && !who.operator {
		return refuse(http.StatusForbidden, codeConfigDenied, "only the operator may write configuration")
	}
	if err := workloop.MayWrite(r, who.operator); err != nil {
		return err
	}
	if reserved {
		return unkeepable(r)
	}
	return nil
}

// mayWriteOn refuses a member's record on the thread of somebody else's run: a record can seem to end a thread.
func (a *API) mayWriteOn(ctx context.Context, who caller, thread string) error {
	if who.operator {
		return nil
	}
	row, err := a.options.Engine.Run(ctx, thread)
	switch {
	case errors.Is(err, &loop.Refusal{Code: codeNotFound}):
		return nil
	case err == nil && row.Principal != who.did:
		return refuse(http.StatusForbidden, codeScope, "the thread is of a run that is not for %q", who.did)
	}
	return err
}

// configKind is the kind of a record that sets a topic of the configuration.
const configKind = "core.engine.config.v1"

// topics are those that this instance reads, and those of which it refuses some values.
func topics() []string {
	return append(workloop.Topics(), "permissions_enabled", "run_code", "auth_required")
}

// unkeepable refuses configuration that this instance could not keep: a switch that does nothing would be a false promise.
func unkeepable(r record.Record) error {
	var body struct {
		Kind    string `json:"kind"`
		Topic   string `json:"topic"`
		Enabled *bool  `json:"enabled"`
	}
	if r.Decode(&body) != nil {
		return nil // the log says what is wrong with it
	}
	switch topics := topics(); {
	case body.Kind == configKind && !slices.Contains(topics, body.Topic):
		return hinted(refuse(http.StatusUnprocessableEntity, codeUnsupported, "nothing here reads a configuration of topic %.80q", body.Topic),
			"the topics are %s", strings.Join(topics, ", "))
	case body.Topic == "permissions_enabled" && (body.Enabled == nil || *body.Enabled):
		return hinted(refuse(http.StatusUnprocessableEntity, codeUnsupported, "this instance does not judge requests of HTTP by rules"),
			"rules judge tool calls, always; requests need the operator's socket or token")
	case body.Topic == "run_code" && (body.Enabled == nil || *body.Enabled):
		return refuse(http.StatusUnprocessableEntity, codeUnsupported, "this instance has no tool run_code")
	case body.Topic == "auth_required" && body.Enabled != nil && !*body.Enabled:
		return refuse(http.StatusUnprocessableEntity, codeUnsupported, "this instance cannot be opened to callers without a credential")
	}
	return nil
}
