package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"playground/faculty/bundle"
	"playground/jail"
	"playground/localapi/userapi"
)

// users calls f with a client of the transport daemon's operator socket.
func (e *Env) users(f func(*userapi.Client) error) error {
	c, err := e.load()
	if err != nil {
		return err
	}
	client := userapi.NewClient(c.OperatorSocket())
	defer client.Disconnect()
	return f(client)
}

// CreateOptions are the flags of "playground user create".
type CreateOptions struct {
	Persona string
	Network string
}

// UserCreate makes a tenant. Standard output gets the token alone, so that a script can take it.
func (e *Env) UserCreate(ctx context.Context, tenant string, o CreateOptions) error {
	return e.users(func(client *userapi.Client) error {
		created, err := client.Create(ctx, jail.ProvisionSpec{Tenant: tenant, Persona: o.Persona, Network: jail.Network(o.Network)})
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(created)
		}
		fmt.Fprintf(e.Stderr, "tenant %s is ready\n", tenant)
		if err := describe(e.Stderr, created.User); err != nil {
			return err
		}
		fmt.Fprintln(e.Stderr, "this is its token; it is shown only now:")
		_, err = fmt.Fprintln(e.Stdout, created.Token)
		return err
	})
}

// UserList prints all tenants.
func (e *Env) UserList(ctx context.Context) error {
	return e.users(func(client *userapi.Client) error {
		all, err := client.List(ctx)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(all)
		}
		found := len(all)
		// Nobody should take a builder's sandbox for a tenant that lacks its account, and destroy it.
		all = slices.DeleteFunc(all, func(user userapi.User) bool { return user.Token == nil && bundle.IsBuilder(user.Tenant) })
		if n := found - len(all); n > 0 {
			fmt.Fprintf(e.Stderr, "sandboxes of `playground faculty build`: %d; what a killed one left goes with the next, or with `playground faculty prune`\n", n)
		}
		if len(all) == 0 {
			_, err := fmt.Fprintln(e.Stderr, "no tenants yet; make one: playground user create NAME")
			return err
		}
		var rows [][]string
		for _, user := range all {
			rows = append(rows, row(user))
		}
		if err := table(e.Stdout, []string{"TENANT", "SESSION", "ATTACHED", "HANDLES", "JOBS", "TOKEN", "LAST USED", "CREATED"}, rows); err != nil {
			return err
		}
		for _, user := range all {
			if user.Problem != "" {
				fmt.Fprintf(e.Stderr, "%s: %s\n", user.Tenant, user.Problem)
			}
		}
		return nil
	})
}

// row is one tenant in the list.
func row(user userapi.User) []string {
	session, attached, handles, created := "-", "-", "-", "-"
	if s := user.Sandbox; s != nil {
		session, attached, handles, created = s.Name, yesNo(s.Attached), strconv.Itoa(s.Handles), when(s.Created)
	}
	token, used := "none", "-"
	if t := user.Token; t != nil {
		token, used = t.Prefix, "never"
		if t.LastUsed != nil {
			used = when(*t.LastUsed)
		}
		if t.Revoked {
			token += " (revoked)"
		}
	}
	return []string{user.Tenant, session, attached, handles, strconv.Itoa(user.ActiveJobs), token, used, created}
}

// UserAttach makes the tenant's sandbox ready, as one more handle, and prints what it is.
func (e *Env) UserAttach(ctx context.Context, tenant string) error {
	return e.users(func(client *userapi.Client) error {
		user, err := client.Attach(ctx, tenant)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(user)
		}
		return describe(e.Stdout, user)
	})
}

// UserDetach gives one handle of the tenant's sandbox back; the last one takes it down.
func (e *Env) UserDetach(ctx context.Context, tenant string) error {
	return e.users(func(client *userapi.Client) error {
		user, err := client.Detach(ctx, tenant)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(user)
		}
		if user.Sandbox != nil && user.Sandbox.Attached {
			_, err = fmt.Fprintf(e.Stdout, "tenant %s: one handle given back, %d still open\n", tenant, user.Sandbox.Handles)
			return err
		}
		_, err = fmt.Fprintf(e.Stdout, "tenant %s is detached; its files stay\n", tenant)
		return err
	})
}

// UserDestroy destroys a tenant, with force also when it runs something.
func (e *Env) UserDestroy(ctx context.Context, tenant string, force bool) error {
	return e.users(func(client *userapi.Client) error {
		if err := client.Destroy(ctx, tenant, force); err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(map[string]string{"destroyed": tenant})
		}
		_, err := fmt.Fprintf(e.Stdout, "tenant %s is destroyed: sandbox, files and tokens; its pile and key stay, in piles/ of the state folder\n", tenant)
		return err
	})
}
