package workapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"playground/record"
	"playground/workloop"
)

// maxRuns bounds a list of runs; scanRuns is how many runs of all actors a list of one actor's looks at.
const (
	defaultRuns = 50
	maxRuns     = 500
	scanRuns    = 2000
)

// request reads the body of a start and decides for whom it is.
func (a *API) request(r *http.Request) (workloop.StartRequest, error) {
	var in workloop.StartRequest
	if err := decode(r, &in); err != nil {
		return in, err
	}
	if strings.TrimSpace(in.Goal) == "" {
		return in, missing("goal")
	}
	principal, who, err := a.principal(r, in.Principal)
	in.Principal, in.Caller = principal, who.did
	if err == nil {
		err = a.actor(in.Principal, in.Actor)
	}
	return in, err
}

// actor refuses a run of one person that would write as another.
func (a *API) actor(principal, actor string) error {
	if actor == "" || actor == principal || strings.HasPrefix(actor, "did:sync:agent:") {
		return nil
	}
	return hinted(refuse(http.StatusForbidden, codeNotCovered, "a run for %q cannot act as %.100q", principal, actor),
		"leave the actor out, or name an agent: did:sync:agent:NAME")
}

func (a *API) startRun(w http.ResponseWriter, r *http.Request) error {
	in, err := a.request(r)
	if err != nil {
		return err
	}
	started, err := a.options.Engine.Start(r.Context(), in)
	if err != nil {
		return err
	}
	reply(w, http.StatusCreated, started)
	return nil
}

func (a *API) previewRun(w http.ResponseWriter, r *http.Request) error {
	in, err := a.request(r)
	if err != nil {
		return err
	}
	preview, err := a.options.Engine.Preview(r.Context(), in)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, preview)
	return nil
}

// An actorRun is the body of a start through an actor's door.
type actorRun struct {
	Goal         string          `json:"goal"`
	SourceThread string          `json:"source_thread"`
	BudgetUSD    *float64        `json:"budget_usd"`
	MaxTurns     *int            `json:"max_turns"`
	Model        string          `json:"model_override"`
	Repo         json.RawMessage `json:"repo"`
	Definition   json.RawMessage `json:"definition"`
	Consumes     json.RawMessage `json:"consumes"`
	Promises     json.RawMessage `json:"promises"`
	Contract     json.RawMessage `json:"contract"`
	Verdict      json.RawMessage `json:"verdict"`
	Revert       json.RawMessage `json:"revert"`
	Verification json.RawMessage `json:"verification"`
}

// unserved refuses, by name, what this instance has nothing for: a field that is ignored would be a false promise.
func (b actorRun) unserved() error {
	set := func(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }
	switch {
	case set(b.Repo):
		return refuse(http.StatusBadRequest, codeRepoUnknown, "this instance has no repositories")
	case set(b.Definition):
		return refuse(http.StatusUnprocessableEntity, codeBadDefinition, "this instance has no definitions of actors")
	}
	for _, field := range []struct {
		name  string
		value json.RawMessage
	}{{"consumes", b.Consumes}, {"promises", b.Promises}, {"contract", b.Contract}, {"verdict", b.Verdict}, {"revert", b.Revert}, {"verification", b.Verification}} {
		if set(field.value) {
			return refuse(http.StatusUnprocessableEntity, codeInvalidBody, "this instance does not serve the field %q", field.name)
		}
	}
	return nil
}

// startActorRun starts a run of an actor: for the tenant whose DID it is, or for the caller, acting as an agent.
func (a *API) startActorRun(w http.ResponseWriter, r *http.Request) error {
	var in actorRun
	if err := decode(r, &in); err != nil {
		return err
	}
	if err := in.unserved(); err != nil {
		return err
	}
	if strings.TrimSpace(in.Goal) == "" {
		return missing("goal")
	}
	did, named := r.PathValue("did"), ""
	if strings.HasPrefix(did, userDID) || did == a.options.Operator {
		named = did
	}
	principal, who, err := a.principal(r, named)
	if err == nil {
		err = a.actor(principal, did)
	}
	if err != nil {
		return err
	}
	started, err := a.options.Engine.Start(r.Context(), workloop.StartRequest{Principal: principal, Caller: who.did, Actor: did, Goal: in.Goal,
		SourceThread: in.SourceThread, BudgetUSD: in.BudgetUSD, MaxTurns: in.MaxTurns, Model: in.Model})
	if err != nil {
		return err
	}
	row, err := a.options.Engine.Run(r.Context(), started.Thread)
	if err != nil {
		return err
	}
	reply(w, http.StatusCreated, row)
	return nil
}

// filter reads what a list of runs is restricted to.
func filter(r *http.Request) (workloop.Filter, error) {
	values := r.URL.Query()
	f := workloop.Filter{State: values.Get("state"), Actor: values.Get("actor")}
	states := []string{"", workloop.Running, workloop.WaitingOnYou, workloop.Done, workloop.Stopped, workloop.StoppedShort}
	if !slices.Contains(states, f.State) {
		return f, badQuery("state must be one of %s", strings.Join(states[1:], ", "))
	}
	limit, err := number(values, "limit", defaultRuns, 1, maxRuns)
	if err != nil {
		return f, err
	}
	f.Limit = int(limit)
	f.Since, err = moment(values, "since")
	return f, err
}

func (a *API) listRuns(w http.ResponseWriter, r *http.Request) error {
	f, err := filter(r)
	if err != nil {
		return err
	}
	return a.replyRuns(w, r, f, RunList{Object: "list"})
}

func (a *API) actorRuns(w http.ResponseWriter, r *http.Request) error {
	f, err := filter(r)
	if err == nil {
		err = record.ValidActor(r.PathValue("did"))
	}
	if err != nil {
		return err
	}
	f.Actor, f.Scan = r.PathValue("did"), scanRuns
	return a.replyRuns(w, r, f, RunList{Object: "run_list", Actor: f.Actor})
}

func (a *API) replyRuns(w http.ResponseWriter, r *http.Request, f workloop.Filter, list RunList) error {
	found, err := a.options.Engine.Runs(r.Context(), f)
	if err != nil {
		return err
	}
	list.Data, list.Count, list.Truncated = found.Rows, len(found.Rows), found.Truncated
	if list.Data == nil {
		list.Data = []workloop.Row{}
	}
	reply(w, http.StatusOK, list)
	return nil
}

// row returns the run that a path names.
func (a *API) row(r *http.Request) (workloop.Row, error) {
	row, err := a.options.Engine.Run(r.Context(), r.PathValue("thread"))
	if err != nil {
		return row, notThere(err, "run", r.PathValue("thread"))
	}
	return row, nil
}

func (a *API) getRun(w http.ResponseWriter, r *http.Request) error {
	row, err := a.row(r)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, row)
	return nil
}

func (a *API) runProvenance(w http.ResponseWriter, r *http.Request) error {
	row, err := a.row(r)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, Provenance{Object: "run_provenance", Thread: row.Thread, Definition: row.Definition, Prompt: row.Prompt, Frame: row.Frame,
		Model: row.Model, Transport: row.Transport, Tools: row.Tools, Narrowed: row.Narrowed})
	return nil
}

// tellRun hands an event to a run.
func (a *API) tellRun(w http.ResponseWriter, r *http.Request) error {
	var event workloop.Event
	if err := decode(r, &event); err != nil {
		return err
	}
	switch {
	case event.Type == "":
		return missing("type")
	case !slices.Contains([]string{workloop.EventStop, workloop.EventMessage, workloop.EventDecision}, event.Type):
		return refuse(http.StatusUnprocessableEntity, codeInvalidBody, "type must be stop, message or decision, not %.40q", event.Type)
	case event.Type == workloop.EventMessage && strings.TrimSpace(event.Text) == "":
		return missing("text")
	case event.Type == workloop.EventDecision && event.Decision == "":
		return missing("decision")
	}
	return a.tell(w, r, event)
}

// cancelRun is the older door of a stop.
func (a *API) cancelRun(w http.ResponseWriter, r *http.Request) error {
	return a.tell(w, r, workloop.Event{Type: workloop.EventStop})
}

func (a *API) tell(w http.ResponseWriter, r *http.Request, event workloop.Event) error {
	row, err := a.row(r)
	if err != nil {
		return err
	}
	who, err := a.speaker(r, row.Principal)
	if err != nil {
		return err
	}
	event.Actor = who
	if err := a.options.Engine.Event(r.Context(), row.Thread, event); err != nil {
		return err
	}
	reply(w, http.StatusAccepted, Ack{Object: "run_event", Thread: row.Thread, Type: event.Type, Accepted: true})
	return nil
}

// speaker returns who speaks to a run: the operator to any, a tenant to its own.
func (a *API) speaker(r *http.Request, principal string) (string, error) {
	who, err := a.caller(r)
	if err == nil && !who.operator && who.did != principal {
		err = refuse(http.StatusForbidden, codeNotCovered, "the run is not for %q", who.did)
	}
	return who.did, err
}

func (a *API) actorUsage(w http.ResponseWriter, r *http.Request) error {
	day := r.URL.Query().Get("day")
	if day != "" {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return badQuery("day must be a date such as 2026-01-02, not %.40q", day)
		}
	}
	if err := record.ValidActor(r.PathValue("did")); err != nil {
		return err
	}
	usage, err := a.options.Engine.Usage(r.Context(), r.PathValue("did"), day)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, usage)
	return nil
}
