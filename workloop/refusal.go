package workloop

import (
	"errors"
	"fmt"
	"net/http"

	"playground/fault"
	"playground/record"
	"playground/workloop/loop"
)

// The codes of refusals beside those of package loop.
const (
	CodeAdmission     = "ADMISSION_CEILING"
	CodeIsolation     = "WORK_ISOLATION_FAILED"
	CodeNoProvider    = "WORK_NO_PROVIDER"
	CodeConcurrency   = "WORK_CONCURRENCY_EXCEEDED"
	CodeDailyCost     = "WORK_DAILY_CAP_EXCEEDED"
	CodeDailyCount    = "WORK_DAILY_COUNT_EXCEEDED"
	CodeMissingField  = "MISSING_FIELD"
	CodeEnded         = "RUN_ALREADY_ENDED"
	CodeWaiting       = "RUN_WAITING"
	CodeNotWaiting    = "RUN_NOT_WAITING"
	CodeConfigDenied  = "CONFIG_WRITE_DENIED"
	CodePolicyMissing = "POLICY_UNSUPPORTED"
	CodeMaxTurns      = "MAX_TURNS"
	CodeFlood         = "RUN_LIMIT"
	CodeProvider      = "PROVIDER_FAILED"
	CodeShuttingDown  = "SHUTTING_DOWN"
	keyCapacity       = "admission_capacity"
	keyAvailable      = "admission_available"
	keyHint           = "hint"
)

// refuse returns a Refusal.
func refuse(code string, status int, format string, args ...any) *loop.Refusal {
	return &loop.Refusal{Code: code, Status: status, Message: fmt.Sprintf(format, args...)}
}

// hinted adds the next step.
func hinted(r *loop.Refusal, format string, args ...any) *loop.Refusal {
	if r.Extra == nil {
		r.Extra = map[string]any{}
	}
	r.Extra[keyHint] = fmt.Sprintf(format, args...)
	return r
}

// invalid is a refusal of what a request says.
func invalid(format string, args ...any) *loop.Refusal {
	return refuse(loop.CodeInvalidBody, http.StatusUnprocessableEntity, format, args...)
}

// notFound is the refusal for a run or question that is not there.
func notFound(what, id string) *loop.Refusal {
	command := "runs"
	if what == "question" {
		command = "decisions"
	}
	return hinted(refuse(loop.CodeNotFound, http.StatusNotFound, "there is no %s %.80q", what, id), "list what there is: playground %s list", command)
}

// ended is the refusal of what comes after a run's outcome.
func ended() *loop.Refusal {
	return hinted(refuse(CodeEnded, http.StatusConflict, "the run has ended"), "see how: playground runs show THREAD")
}

// isolation turns a Starter's error into the documented refusal. A fault's message names the layer and is for callers; any
// other text may name paths of the host and is kept for the log.
func isolation(err error) *loop.Refusal {
	said := "the worker could not be confined"
	if f, ok := errors.AsType[*fault.Error](err); ok {
		said = f.Message
	}
	r := refuse(CodeIsolation, http.StatusServiceUnavailable, "the run was refused, not started: %s", said)
	if hint := fault.HintOf(err); hint != "" {
		hinted(r, "%s", hint)
	}
	return r
}

// DamagedHint is what a person can do about a log that takes no records.
const DamagedHint = "nothing is written until the log is whole: playground records verify names the first bad record; restore the log and its key from a backup"

// unwritten is the refusal of an act whose record could not be written, or which could not be judged. What is a refusal already stays.
func unwritten(err error) *loop.Refusal {
	if refusal, ok := errors.AsType[*loop.Refusal](err); ok {
		return refusal
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && errors.Is(err, record.ErrDamaged) {
		return hinted(refuse(loop.CodeUnavailable, http.StatusServiceUnavailable, "%s", f.Message), "%s", DamagedHint)
	}
	if errors.Is(err, fault.Invalid) || errors.Is(err, fault.TooLarge) {
		return refuse(loop.CodeInvalidBody, http.StatusUnprocessableEntity, "the record is refused: %s", err.Error())
	}
	return refuse(loop.CodeUnavailable, http.StatusServiceUnavailable, "the record cannot be written, so the act is refused")
}

// noProvider is the refusal where no model can be asked.
func noProvider() *loop.Refusal {
	return hinted(refuse(CodeNoProvider, http.StatusServiceUnavailable, "this instance has no model provider"),
		"set work.provider in playground.toml, and what it needs (\"echo\" needs nothing and tries it offline), then start playgroundd, or playground up, again")
}

// notWaiting is the refusal of an answer that nobody waits for.
func notWaiting() *loop.Refusal {
	return hinted(refuse(CodeNotWaiting, http.StatusConflict, "the run does not wait for that decision"), "see what waits: playground decisions list")
}

// answered is the refusal of a second answer.
func answered() *loop.Refusal {
	return refuse(CodeNotWaiting, http.StatusConflict, "the question is being answered already")
}

// noStarter is the refusal where nothing confines workers.
func noStarter() *loop.Refusal {
	return refuse(CodeIsolation, http.StatusServiceUnavailable, "the run was refused, not started: this host has nothing that confines a worker")
}
