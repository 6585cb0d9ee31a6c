package userapi

import (
	"context"
	"net/http"

	"playground/account"
	"playground/localapi"
)

// CreateOperatorToken mints a token with which /v1 may be used over the network as the operator.
func (o *Operator) CreateOperatorToken(ctx context.Context, name string) (NewOperatorToken, error) {
	token, info, err := o.accounts.MintOperator(ctx, name)
	if err != nil {
		return NewOperatorToken{}, err
	}
	return NewOperatorToken{Token: token, Info: info}, nil
}

// OperatorTokens returns all of them, the revoked ones too, oldest first.
func (o *Operator) OperatorTokens(ctx context.Context) ([]account.OperatorToken, error) {
	return o.accounts.OperatorTokens(ctx)
}

// RevokeOperatorToken revokes one, named by its id or prefix.
func (o *Operator) RevokeOperatorToken(ctx context.Context, id string) error {
	return o.accounts.RevokeOperator(ctx, id)
}

// A tokenName is the body of a creation.
type tokenName struct {
	Name string `json:"name"`
}

func (h handlers) createOperatorToken(w http.ResponseWriter, r *http.Request) error {
	var in tokenName
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	token, err := h.users.CreateOperatorToken(r.Context(), in.Name)
	if err != nil {
		return err
	}
	return localapi.Reply(w, token)
}

func (h handlers) operatorTokens(w http.ResponseWriter, r *http.Request) error {
	all, err := h.users.OperatorTokens(r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []account.OperatorToken{} // "[]", not "null"
	}
	return localapi.Reply(w, all)
}

func (h handlers) revokeOperatorToken(w http.ResponseWriter, r *http.Request) error {
	if err := h.users.RevokeOperatorToken(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	return localapi.Reply(w, nil)
}

// CreateOperatorToken mints a token of the operator.
func (c *Client) CreateOperatorToken(ctx context.Context, name string) (NewOperatorToken, error) {
	var token NewOperatorToken
	err := c.api.Do(ctx, "POST", "/v1/operator/tokens", tokenName{name}, &token)
	return token, err
}

// OperatorTokens returns all tokens of the operator, without their secrets.
func (c *Client) OperatorTokens(ctx context.Context) ([]account.OperatorToken, error) {
	var all []account.OperatorToken
	err := c.api.Do(ctx, "GET", "/v1/operator/tokens", nil, &all)
	return all, err
}

// RevokeOperatorToken revokes one token of the operator.
func (c *Client) RevokeOperatorToken(ctx context.Context, id string) error {
	return c.api.Do(ctx, "DELETE", localapi.Join("/v1/operator/tokens/%s", id), nil, nil)
}
