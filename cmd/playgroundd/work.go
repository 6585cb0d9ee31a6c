package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"playground/account"
	"playground/config"
	"playground/confine/escape"
	"playground/daemon"
	"playground/fault"
	"playground/inference"
	"playground/localapi"
	"playground/localapi/jailapi"
	"playground/localapi/userapi"
	"playground/policy"
	"playground/record"
	"playground/version"
	"playground/workapi"
	"playground/workloop"
	"playground/workloop/breakout"
	"playground/workloop/tool"
)

// userDID begins the DIDs of tenants.
const userDID = "did:sync:user:"

// ruleCache is how many compiled expressions are kept.
const ruleCache = 1024

// newRules returns the evaluator of permission rules and hooks.
func newRules() *policy.Evaluator { return policy.New(ruleCache) }

// work is the work loop: the log, the engine and the routes.
type work struct {
	log    *record.Log
	audit  *record.Audit // nil: none is kept here
	engine *workloop.Engine
	api    *workapi.API
	counts *workCounts
}

// workParts are what the work loop stands on.
type workParts struct {
	accounts *account.Store
	starter  workloop.Starter
	jails    *jailapi.Client
	sandbox  tool.Sandbox
	status   func(context.Context) (userapi.Status, error)
	logger   zerolog.Logger
	around   around
}

// openWork opens the log, ends the runs that an earlier process left, and prepares the routes. The caller closes it.
func openWork(ctx context.Context, c config.Config, parts workParts) (_ *work, err error) {
	broker, err := newBroker(c.Work)
	if err != nil {
		return nil, err
	}
	key, err := instanceKey(c.InstanceKey(), c.Records())
	if err != nil {
		return nil, err
	}
	w := &work{counts: newWorkCounts()} // not the result, which an error's return empties before the deferred call
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	rules := newRules()
	options := record.Options{Key: key, Check: workloop.Check(rules)}
	if w.audit, err = openAudit(c.RecordAudit(), parts.jails); err != nil {
		return nil, err
	}
	if w.audit != nil { // a nil *Audit would be an io.Writer that is not nil
		options.Audit = w.audit
		kept := w.audit.Enforcement()
		parts.logger.Info().Bool("enforced", kept.Enforced).Str("reason", kept.Reason).Msg(eventAudit)
	}
	if w.log, err = record.Open(c.Records(), options); err != nil {
		return nil, err
	}
	if damage := w.log.Damage(); damage != nil { // it can be read, and asked what is wrong with it
		parts.logger.Error().Err(damage).Str("hint", workloop.DamagedHint).Msg(eventDamaged)
	}
	if c.Work.HostTools {
		if err := os.MkdirAll(c.Workspace(), 0o700); err != nil {
			return nil, fmt.Errorf("cannot make workspace: %w", err)
		}
	}
	w.engine, err = workloop.New(ctx, workloop.Options{
		Log: w.log, Rules: rules, Broker: broker, Starter: parts.starter, Sandbox: parts.sandbox,
		Operator: c.Work.Operator, DataDir: c.Work.DataDir, Workspace: c.Workspace(), HostTools: c.Work.HostTools,
		Capacity: c.Work.Capacity, MaxTokens: c.Work.MaxTokens, StopGrace: c.Work.StopGrace, Notify: notices{parts.logger, w.counts}.take,
	})
	if err != nil {
		return nil, err
	}
	engine := countedEngine{w.engine, parts.logger, w.counts}
	suite := &breakout.Suite{Engine: engine, Log: w.log, Plan: func(ctx context.Context) (escape.Plan, error) { return parts.around.plan(ctx, c, w.engine) }}
	w.api = workapi.New(workapi.Options{
		Log: w.log, Engine: engine, Rules: rules, Operator: c.Work.Operator, Escape: suite.Run,
		Tenant: parts.exists, Ready: parts.ready, Version: version.String(), Provider: c.Work.Provider, Model: modelOf(broker),
		OnError: func(r *http.Request, err error) {
			parts.logger.Error().Str("route", r.Pattern).Err(err).Msg(eventRequestFailed)
		},
	})
	return w, nil
}

// modelOf returns the model that runs use when a start names none.
func modelOf(broker *inference.Broker) string {
	if broker == nil {
		return ""
	}
	return broker.Model()
}

// close closes what is open, in the order of its use. The engine was closed by its task; a second time does nothing.
func (w *work) close() {
	if w.api != nil {
		w.api.Close()
	}
	if w.engine != nil {
		_ = w.closeEngine() // its task has said what went wrong
	}
	if w.log != nil {
		_ = w.log.Close() // every append was acknowledged when it was on the disk
	}
	if w.audit != nil {
		_ = w.audit.Close() // likewise
	}
}

// engineGrace bounds the end of all runs.
const engineGrace = 8 * time.Second

func (w *work) closeEngine() error {
	ctx, cancel := context.WithTimeout(context.Background(), engineGrace)
	defer cancel()
	return w.engine.Close(ctx)
}

// task keeps the engine while the listeners are up and ends its runs after them.
func (w *work) task() daemon.Task {
	return daemon.NewTask("work", func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		return w.closeEngine()
	})
}

// exists reports whether there is a tenant of this name.
func (p workParts) exists(ctx context.Context, name string) (bool, error) {
	_, err := p.accounts.Get(ctx, name)
	if errors.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// ready says why tenants cannot work now.
func (p workParts) ready(ctx context.Context) error {
	status, err := p.status(ctx)
	if err == nil {
		err = userapi.Healthy(status)
	}
	return err
}

// onSocket serves the work loop's routes beside those of the operator's socket, to the same peers.
func (w *work) onSocket(access localapi.Access, security daemon.SecurityLog, other http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.api.Owns(r.URL.Path) {
			other.ServeHTTP(rw, r)
			return
		}
		peer := localapi.PeerOf(r.Context())
		if err := access(peer); err != nil {
			security.Record(daemon.Denied, daemon.SecurityFields{UID: &peer.UID, Action: "/v1", Reason: "peer"})
			workapi.Refuse(rw, http.StatusForbidden, err.Error(), fault.HintOf(err))
			return
		}
		w.api.ServeHTTP(rw, r)
	})
}

// beginTenant ends what an earlier tenant of a new one's name has left, where a crash kept endTenant from it.
func (w *work) beginTenant(ctx context.Context, tenant string) error {
	if !w.engine.Remains(userDID + tenant) {
		return nil
	}
	return w.endTenant(ctx, tenant)
}

// endTenant ends the runs of a tenant that is no more: the next tenant of that name starts as everybody does, and sees nothing of
// them. What they wrote stays in the log, as everything does.
func (w *work) endTenant(ctx context.Context, tenant string) error {
	return w.engine.Retire(ctx, userDID+tenant)
}
