package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"playground/account"
	"playground/daemon"
	"playground/fault"
	"playground/jail"
	"playground/localapi/userapi"
)

// users is the operator's work with what this program adds: connections of a revoked token are cut, and the security log
// says who got or lost a credential.
type users struct {
	userapi.Users
	forget         func(tenant string)
	forgetOperator func(id string)
	beginTenant    func(ctx context.Context, tenant string) error // of the work loop
	endTenant      func(ctx context.Context, tenant string) error // likewise
	operator       string                                         // DID
	security       daemon.SecurityLog
}

// Create makes a tenant.
func (u users) Create(ctx context.Context, spec jail.ProvisionSpec) (userapi.Created, error) {
	if userDID+spec.Tenant == u.operator {
		return userapi.Created{}, fault.New(fault.Invalid, "%q is the operator: its runs have no ceilings", userDID+spec.Tenant).
			WithHint("choose another name, or change work.operator of the configuration")
	}
	created, err := u.Users.Create(ctx, spec)
	if err != nil {
		return created, err
	}
	if created.User.Token != nil {
		u.record(daemon.Minted, spec.Tenant, created.User.Token.Prefix, "user create")
	}
	if err := u.beginTenant(ctx, spec.Tenant); err != nil {
		return userapi.Created{}, fault.Wrap(fault.Unavailable, err, "tenant %q is created, but runs of an earlier tenant of that name are not ended", spec.Tenant).
			WithHint("destroy it, and create it again when the cause is mended: playground user destroy %s", spec.Tenant)
	}
	return created, nil
}

// Destroy removes a tenant. Its connections end even when a later step failed: its token may be gone already.
func (u users) Destroy(ctx context.Context, tenant string, force bool) error {
	err := u.Users.Destroy(ctx, tenant, force)
	u.forget(tenant)
	if err == nil {
		if endErr := u.endTenant(ctx, tenant); endErr != nil {
			err = fault.Wrap(fault.Unavailable, endErr, "tenant %q is destroyed, but its runs or its tier are not", tenant).
				WithHint("look at its runs with: playground runs list")
		}
		u.record(daemon.Revoked, tenant, "", "user destroy")
	}
	return err
}

// ResetToken revokes a tenant's tokens and mints a new one.
func (u users) ResetToken(ctx context.Context, tenant string) (userapi.NewToken, error) {
	token, err := u.Users.ResetToken(ctx, tenant)
	if err == nil {
		u.forget(tenant)
		u.record(daemon.Revoked, tenant, "", "token reset")
		u.record(daemon.Minted, tenant, token.Info.Prefix, "token reset")
	}
	return token, err
}

// RevokeToken revokes a tenant's tokens.
func (u users) RevokeToken(ctx context.Context, tenant string) error {
	err := u.Users.RevokeToken(ctx, tenant)
	if err == nil || errors.Is(err, account.ErrNotKept) {
		u.forget(tenant)
		u.record(daemon.Revoked, tenant, "", "token revoke")
	}
	return err
}

// CreateOperatorToken mints a token of the operator.
func (u users) CreateOperatorToken(ctx context.Context, name string) (userapi.NewOperatorToken, error) {
	token, err := u.Users.CreateOperatorToken(ctx, name)
	if err == nil {
		u.recordOperator(daemon.Minted, token.Info.ID, "operator token create")
	}
	return token, err
}

// RevokeOperatorToken revokes a token of the operator and ends what it is doing.
func (u users) RevokeOperatorToken(ctx context.Context, id string) error {
	err := u.Users.RevokeOperatorToken(ctx, id)
	if err == nil || errors.Is(err, account.ErrNotKept) {
		id = strings.TrimPrefix(id, "pgo_")
		u.forgetOperator(id)
		u.recordOperator(daemon.Revoked, id, "operator token revoke")
	}
	return err
}

func (u users) recordOperator(event daemon.SecurityEvent, id, action string) {
	u.security.Record(event, daemon.SecurityFields{TokenID: id, Action: action})
}

func (u users) record(event daemon.SecurityEvent, tenant, prefix, action string) {
	u.security.Record(event, daemon.SecurityFields{Tenant: tenant, TokenID: strings.TrimPrefix(prefix, "pgt_"), Action: action})
}

// metricsServer serves /metrics and /healthz on the loopback address that the configuration names. Anybody on this host
// may read it, so it names no tenant.
func metricsServer(operator userapi.Users, metrics http.Handler) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		status, err := operator.Status(r.Context())
		if err == nil {
			err = userapi.Healthy(status)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		text := "ok\n"
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = err.Error() + "\n"
		}
		_, _ = w.Write([]byte(text)) // the caller has left: nobody to tell
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
}
