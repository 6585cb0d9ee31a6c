package workapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"playground/policy"
	"playground/record"
	"playground/workloop"
)

func (a *API) listDecisions(w http.ResponseWriter, r *http.Request) error {
	open, err := a.options.Engine.Decisions(r.Context())
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, whole(open))
	return nil
}

func (a *API) decide(w http.ResponseWriter, r *http.Request) error {
	var in Answer
	if err := decode(r, &in); err != nil {
		return err
	}
	if strings.TrimSpace(in.Decision) == "" {
		return missing("decision")
	}
	who, err := a.caller(r)
	if err != nil {
		return err
	}
	if err := a.mayDecide(r, who); err != nil {
		return err
	}
	decision, err := a.options.Engine.Decide(r.Context(), r.PathValue("id"), workloop.Event{Type: workloop.EventDecision, Decision: in.Decision,
		Reason: in.Reason, Value: in.Value, Policy: in.Policy, Actor: who.did})
	if err != nil {
		return notThere(err, "question", r.PathValue("id"))
	}
	reply(w, http.StatusOK, decision)
	return nil
}

// mayDecide lets a tenant answer the questions of its own runs only.
func (a *API) mayDecide(r *http.Request, who caller) error {
	if who.operator {
		return nil
	}
	open, err := a.options.Engine.Decisions(r.Context())
	if err != nil {
		return err
	}
	for _, one := range open {
		if one.RequestID == r.PathValue("id") && one.Principal == who.did {
			return nil
		}
	}
	return refuse(http.StatusNotFound, codeNotFound, "no question %.100q", r.PathValue("id"))
}

// ruleTopic is the body.topic of a permission rule.
const ruleTopic = "permission_rule"

// listRules lists the rules as the guard has them: the newest record of each name, in the order they are asked.
func (a *API) listRules(w http.ResponseWriter, r *http.Request) error {
	written, err := a.options.Log.Config(r.Context(), ruleTopic)
	if err != nil {
		return err
	}
	newest := map[string]Rule{}
	for _, one := range written {
		rule, err := policy.ParseRule(one.Body)
		if err != nil {
			continue // it was refused when it came; the guard skips it too
		}
		newest[rule.Name] = Rule{"permission_rule", rule.Name, rule.Namespace, rule.Expression, rule.Action, rule.Priority, rule.Enabled, one.ID, one.Sequence}
	}
	rules := []Rule{}
	for _, rule := range newest {
		rules = append(rules, rule)
	}
	slices.SortFunc(rules, func(x, y Rule) int {
		if x.Enabled != y.Enabled {
			if x.Enabled {
				return -1
			}
			return 1
		}
		return cmp.Or(-cmp.Compare(x.Priority, y.Priority), -cmp.Compare(x.Action, y.Action), cmp.Compare(x.Name, y.Name)) // "deny" is after "allow"
	})
	reply(w, http.StatusOK, RuleList{Object: "list", Data: rules, ToolGuard: "on"})
	return nil
}

func (a *API) listTools(w http.ResponseWriter, _ *http.Request) error {
	reply(w, http.StatusOK, whole(a.options.Engine.Tools()))
	return nil
}

func (a *API) getTool(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	for _, tool := range a.options.Engine.Tools() {
		if tool.ID == id || tool.Name == id {
			reply(w, http.StatusOK, tool)
			return nil
		}
	}
	return refuse(http.StatusNotFound, codeNotFound, "no tool %.100q", id)
}

func (a *API) engineHealth(w http.ResponseWriter, r *http.Request) error {
	details, err := boolean(r.URL.Query(), "details")
	if err != nil {
		return err
	}
	loop, err := a.options.Engine.Health(r.Context())
	if err != nil {
		return err
	}
	open, err := a.options.Engine.Decisions(r.Context())
	if err != nil {
		return err
	}
	all, err := a.options.Log.Query(r.Context(), record.Query{Limit: 1})
	if err != nil {
		return err
	}
	h := EngineHealth{Object: "engine_health", Ingested: all.MatchedTotal, Reconciled: all.MatchedTotal, Pending: len(open),
		Intelligence: a.options.Provider != "", UptimeSecs: int64(time.Since(a.started).Seconds()), WorkLoop: loop}
	if details {
		stats := a.options.Rules.Stats()
		h.Version, h.Provider, h.Model, h.ExpressionCache = a.options.Version, a.options.Provider, a.options.Model, &stats
	}
	reply(w, http.StatusOK, h)
	return nil
}

func (a *API) expressionStats(w http.ResponseWriter, _ *http.Request) error {
	reply(w, http.StatusOK, CacheStats{"expression_cache_stats", a.options.Rules.Stats()})
	return nil
}

// verifyLog reads the whole log again, which takes as long as the log is large.
func (a *API) verifyLog(w http.ResponseWriter, r *http.Request) error {
	report, err := a.options.Log.Verify(r.Context())
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, Verification{"verification", report.First == nil, report})
	return nil
}

// health tells who may refuse a request.
func (a *API) health(w http.ResponseWriter, _ *http.Request) error {
	const no = "this instance has one operator, who may do all that is offered"
	reply(w, http.StatusOK, Health{Object: "health", Status: "ok", Version: a.options.Version, Deciders: []Decider{
		{"scope", "live", "the operator's socket or an operator's token"},
		{"actor_claim", "live", "an actor header must name a tenant"},
		{"capability_grant", "abstains", no},
		{"permission_rules", "abstains", "rules judge tool calls, not requests"},
		{"impersonation", "abstains", no},
		{"principal_proof", "abstains", no},
	}})
	return nil
}

func (a *API) alive(w http.ResponseWriter, _ *http.Request) error {
	reply(w, http.StatusOK, Health{Object: "health", Status: "ok"})
	return nil
}

// ready says whether tenants can work, and to strangers not why not.
func (a *API) ready(w http.ResponseWriter, r *http.Request) error {
	if a.options.Ready != nil && a.options.Ready(r.Context()) != nil {
		return refuse(http.StatusServiceUnavailable, codeUnavailable, "not ready")
	}
	reply(w, http.StatusOK, Health{Object: "health", Status: "ready"})
	return nil
}
