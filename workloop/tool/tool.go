// Package tool has the tools of work loops that the kernel carries out: what each is called, which protection domain it
// belongs to, who may be offered it, and what it does. Every tool is classified here before it is offered to anybody.
//
// There are four sets. The record tools read and write the log as far as the run's principal may. The data tools work on the
// instance's data folder and need its handle, which a separate process does not have. The host tools work on the operator's own
// machine. The sandbox tools work inside a tenant's own computer. A tool is given the one tenant that it serves when the run
// starts and takes no other from its arguments.
package tool

import (
	"context"
	"encoding/json"
	"slices"

	"playground/jail"
	"playground/job"
	"playground/sandbox"
	"playground/workloop/loop"
)

// A Sandbox is a tenant's own computer; *sandbox.Provider is one.
type Sandbox interface {
	Session(tenant string) string
	Open(ctx context.Context, tenant string, options jail.OpenOptions) (jail.Sandbox, error)
	Close(ctx context.Context, tenant, session string) (jail.Sandbox, error)
	Exec(ctx context.Context, tenant, session string, command sandbox.Command, head, tail int) (job.Execution, error)
	Read(ctx context.Context, tenant, session, name, cwd string) (sandbox.File, error)
	Write(ctx context.Context, tenant, session, name, cwd string, data []byte) (sandbox.Written, error)
}

// A Set is a family of tools that stand on the same thing.
type Set string

// The sets.
const (
	Local   Set = "local"   // carried out by the loop itself
	Records Set = "records" // the log
	Data    Set = "data"    // the instance's data folder
	Host    Set = "host"    // the operator's machine
	Tenant  Set = "sandbox" // the principal's own computer
)

// A Definition is a classified tool.
type Definition struct {
	loop.Tool
	Set Set
	// OnRequest tools are granted only to a run that names them.
	OnRequest bool
}

// ID names a definition among all sets; two sets have tools of the same name.
func (d Definition) ID() string {
	if d.Set == Host || d.Set == Tenant {
		return string(d.Set) + ":" + d.Name
	}
	return d.Name
}

// Facts are what decides which sets there are for a run.
type Facts struct {
	Operator  bool // the run is for the operator
	InProcess bool
	Data      bool // the instance has a data folder
	Host      bool // the operator allows host tools
	Tenant    bool // the principal has a computer of its own
}

// has reports whether a run may have tools of a set. The data tools of a sandboxed run are granted, and then withheld.
func (f Facts) has(s Set) bool {
	switch s {
	case Local, Records:
		return true
	case Data:
		return f.Data
	case Host:
		return f.Host && f.Operator && f.InProcess
	case Tenant:
		return f.Tenant && !f.Operator
	}
	return false
}

// Available returns the definitions that a run may have, by set and name.
func Available(f Facts) []Definition {
	return slices.DeleteFunc(Definitions(), func(d Definition) bool { return !f.has(d.Set) })
}

// Definitions returns all tools.
func Definitions() []Definition {
	var all []Definition
	for _, t := range loop.LocalTools() {
		all = append(all, Definition{Tool: t, Set: Local})
	}
	add := func(set Set, domain loop.Domain, onRequest bool, tools ...loop.Tool) {
		for _, t := range tools {
			t.Domain = domain
			all = append(all, Definition{Tool: t, Set: set, OnRequest: onRequest})
		}
	}
	add(Records, loop.Mediated, false, recordTools()...)
	add(Data, loop.Trusted, false, dataTools()...)
	add(Host, loop.Trusted, false, hostTools()...)
	add(Tenant, loop.Mediated, true, tenantTools()...)
	return all
}

// Names returns the names of all tools that a request may forbid, sorted: those that there are, and those of the protocol that
// this product does not have.
func Names() []string {
	names := []string{"propose_definition", "run_code", "spawn"}
	for _, d := range Definitions() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// define makes a tool whose arguments are properties, a JSON object of schemas, of which required must be there.
func define(name, description, properties string, required ...string) loop.Tool {
	list, _ := json.Marshal(append([]string{}, required...)) // strings always marshal
	return loop.Tool{Name: name, Description: description, Schema: json.RawMessage(
		`{"type":"object","properties":{` + properties + `},"required":` + string(list) + `,"additionalProperties":false}`)}
}
