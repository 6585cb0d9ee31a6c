package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"playground/config"
	"playground/localapi/jailapi"
)

// jails calls f with a client of the daemon that owns sandboxes and templates: only root may change templates, because they
// are made from files of the host, and the transport has no part in them.
func (e *Env) jails(f func(config.Config, *jailapi.Client) error) error {
	c, err := e.load()
	if err != nil {
		return err
	}
	client := jailapi.NewClient(c.JailSocket())
	defer client.Disconnect()
	return f(c, client)
}

// TemplateCreate makes a template from an archive such as base.txz, from a folder that holds a system, or from "/".
func (e *Env) TemplateCreate(ctx context.Context, name, from string) error {
	source, err := filepath.Abs(from) // the daemon has another working folder
	if err != nil {
		return fmt.Errorf("cannot find %q: %w", from, err)
	}
	return e.jails(func(c config.Config, client *jailapi.Client) error {
		fmt.Fprintf(e.Stderr, "making template %s from %s; this can take minutes\n", name, source)
		template, err := client.CreateTemplate(ctx, name, source)
		if err != nil {
			return err
		}
		if name != c.Sandbox.Template {
			fmt.Fprintf(e.Stderr, "new sandboxes are made from template %s; for this one, set sandbox.template = %q\n", c.Sandbox.Template, name)
		}
		if e.JSON {
			return e.printJSON(template)
		}
		_, err = fmt.Fprintf(e.Stdout, "template %s is ready: %s, storage %s\n", name, known(template.Release), template.Storage)
		return err
	})
}

// TemplateList prints all templates.
func (e *Env) TemplateList(ctx context.Context) error {
	return e.jails(func(_ config.Config, client *jailapi.Client) error {
		all, err := client.Templates(ctx)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(all)
		}
		if len(all) == 0 {
			_, err := fmt.Fprintln(e.Stderr, "no templates yet; make one: playground template create NAME --from base.txz")
			return err
		}
		var rows [][]string
		for _, t := range all {
			users := strings.Join(t.UsedBy, " ")
			if users == "" {
				users = "-"
			}
			rows = append(rows, []string{t.Name, string(t.Storage), known(t.Release), when(t.Created), t.Source, users})
		}
		return table(e.Stdout, []string{"TEMPLATE", "STORAGE", "RELEASE", "CREATED", "SOURCE", "USED BY"}, rows)
	})
}

// known shows a release to a person.
func known(release string) string {
	if release == "" {
		return "unknown release"
	}
	return release
}

// TemplateDestroy removes a template that no sandbox stands on.
func (e *Env) TemplateDestroy(ctx context.Context, name string) error {
	return e.jails(func(_ config.Config, client *jailapi.Client) error {
		if err := client.DestroyTemplate(ctx, name); err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(map[string]string{"destroyed": name})
		}
		_, err := fmt.Fprintf(e.Stdout, "template %s is destroyed\n", name)
		return err
	})
}
