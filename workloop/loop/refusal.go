package loop

import (
	"errors"
	"maps"
	"net/http"

	"playground/inference"
)

// The codes of refusals that the loop and the doors know. The engine and the routes have more.
const (
	CodeNotFound        = "NOT_FOUND"
	CodeAuthRequired    = "AUTH_REQUIRED"
	CodeKindNotAdmitted = "WRITE_KIND_NOT_ADMITTED"
	CodeReadsNotCovered = "READS_NOT_COVERED"
	CodeScopeForbidden  = "SCOPE_FORBIDDEN"
	CodeToolNotInReach  = "TOOL_NOT_IN_REACH"
	CodeInvalidBody     = "INVALID_BODY"
	CodeInvalidQuery    = "INVALID_QUERY"
	CodeTooLarge        = "TOO_LARGE"
	CodeConflict        = "CONFLICT"
	CodeStopped         = "RUN_STOPPED"
	CodeRefused         = "RUN_REFUSED"
	CodeBudgetExhausted = "BUDGET_EXHAUSTED"
	CodeMaxTurns        = "MAX_TURNS"
	CodeBudgetRequired  = "BUDGET_REQUIRED"
	CodeUnavailable     = "UNAVAILABLE"
	CodeInternal        = "INTERNAL"
)

// budgetKind is the key of Refusal.Extra that says which budget is exhausted.
const budgetKind = "budget_kind"

// A Refusal is an error with a documented code. It is the same in the daemon, over the doors and at /v1.
type Refusal struct {
	Code    string
	Status  int // of HTTP
	Message string
	Extra   map[string]any // more fields of the error body; never a secret
}

// Error returns the message and the code.
func (r *Refusal) Error() string { return r.Message + " (" + r.Code + ")" }

// Is reports whether target is a Refusal of the same code.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.Code == r.Code
}

// Body returns the error body that is sent over HTTP.
func (r *Refusal) Body() map[string]any {
	body := map[string]any{}
	maps.Copy(body, r.Extra)
	body["object"], body["code"], body["message"] = "error", r.Code, r.Message
	return body
}

// The refusals that end a run. Compare them with errors.Is.
var (
	ErrStopped = &Refusal{Code: CodeStopped, Status: http.StatusConflict, Message: "the run was stopped"}
	ErrRefused = &Refusal{Code: CodeRefused, Status: http.StatusForbidden, Message: "the run is refused"}
)

// ErrBudget returns the refusal of a model call for want of budget; kind is one of the Budget constants.
func ErrBudget(kind string) *Refusal {
	return &Refusal{Code: CodeBudgetExhausted, Status: http.StatusPaymentRequired,
		Message: "the " + kind + " budget of the run is exhausted", Extra: map[string]any{budgetKind: kind}}
}

// BudgetKind returns which budget err says is exhausted.
func BudgetKind(err error) (kind string, exhausted bool) {
	if e, ok := errors.AsType[*inference.BudgetError](err); ok {
		return e.Kind, true
	}
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Code != CodeBudgetExhausted {
		return "", false
	}
	if kind, _ = r.Extra[budgetKind].(string); kind != BudgetTokens && kind != BudgetWallClock {
		kind = BudgetUSD
	}
	return kind, true
}
