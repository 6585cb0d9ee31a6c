package workapi

import (
	"context"
	"net/http"

	"playground/confine/escape"
)

// runEscape runs the escape suite. Only the operator in person may have it run, and nobody says what it tries: a body that names
// anything is refused.
func (a *API) runEscape(w http.ResponseWriter, r *http.Request) error {
	who, err := a.caller(r)
	if err != nil {
		return err
	}
	if !who.operator {
		return refuse(http.StatusForbidden, codeScope, "only the operator may run the escape suite, not in the name of a member")
	}
	var nothing struct{}
	if err := decode(r, &nothing); err != nil {
		return err
	}
	if a.options.Escape == nil {
		return refuse(http.StatusNotImplemented, codeUnsupported, "this instance has no escape suite")
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)() // the daemon does not wait for it
	report, err := a.options.Escape(ctx)
	if err != nil {
		return err
	}
	if report.Rows == nil {
		report.Rows = []escape.Row{}
	}
	reply(w, http.StatusOK, report)
	return nil
}
