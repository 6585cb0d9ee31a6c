package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"playground/config"
	"playground/faculty/bundle"
	"playground/fault"
	"playground/jail"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
)

// A BundleSpec is what "playground faculty build" was asked for.
type BundleSpec struct {
	Source   string
	Name     string   // "" = the folder's name
	Builder  string   // "" = what the source looks like
	Command  string   // for the builder "command"
	Binaries []string // NAME or NAME=TARGET
	Network  bool
	Vendor   bool
	Timeout  time.Duration
	Force    bool // also what was built already
}

// bundles calls f with the store of cohorts and the daemons that builds and installations go through.
func (e *Env) bundles(f func(*bundle.Store, bundle.Host) error) error {
	c, err := e.load()
	if err != nil {
		return err
	}
	store, err := bundle.Open(c.Faculty.Bundles, filepath.Join(c.Host.StateDir, jail.SourceFolder))
	if err != nil {
		return err
	}
	jails, jobs := jailapi.NewClient(c.JailSocket()), jobapi.NewClient(c.ReaperSocket())
	defer jails.Disconnect()
	defer jobs.Disconnect()
	return f(store, bundle.Host{Sandboxes: jails, Jobs: jobs, Open: openNetwork(c), ChunkSize: min(c.Jobs.FileBytes, 1<<20)})
}

// openNetwork is what a build may reach that is allowed to use the network.
func openNetwork(c config.Config) jail.Network {
	if c.Sandbox.Isolation == jail.IsolationJail {
		return jail.NetworkInherit
	}
	return jail.NetworkHost
}

// FacultyBuild builds a cohort, or finds it built.
func (e *Env) FacultyBuild(ctx context.Context, b BundleSpec) error {
	spec, err := b.spec()
	if err != nil {
		return err
	}
	return e.bundles(func(store *bundle.Store, host bundle.Host) error {
		c, err := store.Build(ctx, host, spec, e.Stderr)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(c)
		}
		how := "built"
		if c.Reused {
			how = "is there already; --force builds it anew"
		}
		_, err = fmt.Fprintf(e.Stdout, "bundle %s@%.12s %s\n", c.Name, c.Fingerprint, how)
		for _, one := range c.Binaries {
			fmt.Fprintf(e.Stdout, "  %s  %d bytes  sha256 %s\n", one.Name, one.Size, one.SHA256)
		}
		return err
	})
}

func (b BundleSpec) spec() (bundle.Spec, error) {
	source, err := filepath.Abs(b.Source)
	if err != nil {
		return bundle.Spec{}, fmt.Errorf("cannot find %q: %w", b.Source, err)
	}
	spec := bundle.Spec{Name: b.Name, Source: source, Builder: bundle.Builder(b.Builder), Command: b.Command,
		Binaries: map[string]string{}, Network: b.Network, Vendor: b.Vendor, Timeout: b.Timeout, Force: b.Force}
	if spec.Name == "" {
		spec.Name = strings.ToLower(filepath.Base(source))
		if bundle.ValidName(spec.Name) != nil {
			return spec, fault.New(fault.Invalid, "the folder's name %q cannot be a bundle's", spec.Name).WithHint("choose one: --name NAME")
		}
	}
	if spec.Builder == "" {
		spec.Builder = bundle.Recognise(source, b.Command)
	}
	for _, text := range b.Binaries {
		name, target, _ := strings.Cut(text, "=")
		if _, twice := spec.Binaries[name]; twice {
			return spec, fault.New(fault.Invalid, "executable %q is named twice", name)
		}
		spec.Binaries[name] = target
	}
	if len(spec.Binaries) == 0 {
		spec.Binaries[spec.Name] = ""
	}
	return spec, nil
}

// FacultyCohorts lists complete builds and who has them. What cannot be read is told after what can.
func (e *Env) FacultyCohorts(ctx context.Context, name string) error {
	return e.bundles(func(store *bundle.Store, host bundle.Host) error {
		all, err := store.Cohorts(name)
		if err != nil {
			return err
		}
		installed, unread := store.Installations(ctx, host)
		if e.JSON {
			return errors.Join(e.printJSON(map[string]any{"cohorts": orEmpty(all), "installed": orEmpty(installed)}), unread)
		}
		if len(all) == 0 {
			of := ""
			if name != "" {
				of = fmt.Sprintf(" of %q", name)
			}
			_, err := fmt.Fprintf(e.Stderr, "no builds%s yet; make one: playground faculty build FOLDER\n", of)
			return errors.Join(err, unread)
		}
		var rows [][]string
		for _, c := range all {
			rows = append(rows, cohortRow(c, installed))
		}
		return errors.Join(table(e.Stdout, []string{"BUILD", "BUILT", "EXECUTABLES", "INSTALLED"}, rows), unread)
	})
}

// cohortRow is one cohort in the list.
func cohortRow(c bundle.Cohort, installed []bundle.Installation) []string {
	var names, tenants []string
	for _, b := range c.Binaries {
		names = append(names, b.Name)
	}
	if c.Damaged != "" {
		names = []string{"DAMAGED"}
	}
	for _, i := range installed {
		switch {
		case i.Name == c.Name && i.Current == c.Fingerprint:
			tenants = append(tenants, i.Tenant)
		case i.Name == c.Name && i.Previous == c.Fingerprint:
			tenants = append(tenants, i.Tenant+" (previous)")
		}
	}
	if len(tenants) == 0 {
		tenants = []string{"-"}
	}
	return []string{c.Name + "@" + c.Fingerprint[:12], when(c.Built), strings.Join(names, " "), strings.Join(tenants, ", ")}
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{} // "[]", not "null"
	}
	return list
}

// FacultyInstall puts a cohort into tenants, one after the other; one failure does not keep it from the rest.
func (e *Env) FacultyInstall(ctx context.Context, reference string, tenants []string) error {
	return e.bundles(func(store *bundle.Store, host bundle.Host) error {
		c, err := store.Find(reference)
		if err != nil {
			return err
		}
		return e.eachTenant(ctx, tenants, func(tenant string) (bundle.Installation, error) {
			return store.Install(ctx, host, c, tenant)
		})
	})
}

// FacultyRollback makes the former cohort the current one.
func (e *Env) FacultyRollback(ctx context.Context, name string, tenants []string) error {
	return e.bundles(func(store *bundle.Store, host bundle.Host) error {
		return e.eachTenant(ctx, tenants, func(tenant string) (bundle.Installation, error) {
			return store.Rollback(ctx, host, name, tenant)
		})
	})
}

// eachTenant makes one change in each tenant. An interrupted one tells which were changed before.
func (e *Env) eachTenant(ctx context.Context, tenants []string, f func(string) (bundle.Installation, error)) error {
	var done []bundle.Installation
	failed := 0
	for _, tenant := range tenants {
		if ctx.Err() != nil {
			break
		}
		one, err := f(tenant)
		if err != nil && ctx.Err() != nil {
			break
		}
		if err != nil {
			failed++
			Report(e.Stderr, err)
			continue
		}
		done = append(done, one)
		if !e.JSON {
			fmt.Fprintf(e.Stdout, "tenant %s has %s@%.12s in %s; restart its worker: playground faculty restart %s\n",
				tenant, one.Name, one.Current, bundle.Home(tenant, one.Name), tenant)
		}
	}
	if e.JSON {
		if err := e.printJSON(orEmpty(done)); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed > 0 {
		return StatusError(1)
	}
	return nil
}

// FacultyPrune removes builds that nobody needs.
func (e *Env) FacultyPrune(ctx context.Context, name string, keep int, dry bool) error {
	return e.bundles(func(store *bundle.Store, host bundle.Host) error {
		gone, err := store.Prune(ctx, host, name, keep, dry)
		if e.JSON {
			if printErr := e.printJSON(orEmpty(gone)); err == nil {
				err = printErr
			}
			return err
		}
		verb := "removed"
		if dry {
			verb = "would remove"
		}
		for _, p := range gone {
			what := ""
			switch {
			case p.Damaged != "":
				what = ", a damaged build"
			case !p.Complete:
				what = ", a failed build"
			}
			fmt.Fprintf(e.Stdout, "%s %s@%.12s%s\n", verb, p.Name, p.Fingerprint, what)
		}
		if len(gone) == 0 && err == nil {
			fmt.Fprintln(e.Stderr, "nothing to remove")
		}
		return err
	})
}
