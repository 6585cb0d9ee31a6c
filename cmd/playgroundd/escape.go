package main

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"playground/config"
	"playground/confine/escape"
	"playground/internal/rootd"
	"playground/localapi"
	"playground/localapi/facultyapi"
	"playground/workloop"
)

// around is what a worker is kept from: this suite. What the escape suite tries comes from here and from the configuration alone.
type around struct {
	config         string // the configuration file
	jaild, reaperd func(context.Context) (localapi.Probe, error)
}

// plan says what there is to reach for now. What is not there is left out: to miss it would prove nothing.
func (a around) plan(ctx context.Context, c config.Config, engine *workloop.Engine) (escape.Plan, error) {
	p := escape.Plan{Shape: escape.SameUser, Processes: []int{os.Getpid()}}
	reaperd, err := a.reaperd(ctx)
	if err != nil {
		return p, err
	}
	if reaperd.UID == 0 {
		p.Shape = escape.RootDaemon
	}
	jaild, err := a.jaild(ctx)
	if err != nil {
		return p, err
	}
	found := []localapi.Probe{reaperd, jaild}
	keeper := facultyapi.NewClient(c.FacultySocket())
	defer keeper.Disconnect()
	if probe, err := keeper.Probe(ctx); err == nil { // a host without faculties has none
		found = append(found, probe)
	}
	for _, probe := range found {
		if probe.PID > 1 { // not every kernel tells it
			p.Processes = append(p.Processes, int(probe.PID))
		}
	}
	for _, address := range []string{c.HTTP.Listen, c.HTTP.MetricsListen} {
		if at, err := netip.ParseAddrPort(address); err == nil && at.Port() != 0 {
			p.Ports = append(p.Ports, int(at.Port()))
		}
	}
	if p.Sockets, err = socketsIn(c.Host.RunDir); err != nil {
		return p, err
	}
	p.Files = there(a.config, c.Database(), c.Records(), c.RecordAudit(), c.InstanceKey(), c.Work.KeyFile, c.Work.Script, c.Gateway.Manifest, c.Faculty.Definitions,
		"/etc/passwd", "/etc/shadow", "/etc/master.passwd", "/etc/ssh/ssh_host_ed25519_key")
	p.Folders = there(c.Host.StateDir, c.Host.RunDir, c.TransportDir(), c.Workspace(), c.Work.DataDir, c.FacultyDir(), c.Host.LibexecDir,
		"/tmp", "/home", "/root", "/etc", "/var", "/dev", "/dev/shm")
	p.Programs = there("/bin/sh", "/usr/bin/su", rootd.Worker(c.Host.LibexecDir))
	p.Other, err = other(ctx, engine)
	return p, err
}

// socketsIn are the sockets of a folder.
func socketsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot look for sockets: %w", err)
	}
	var found []string
	for _, entry := range entries {
		if entry.Type() == fs.ModeSocket {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	return found, nil
}

// there are the paths at which there is something.
func there(paths ...string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Lstat(path)
		return path == "" || err != nil
	})
}

// other is the thread of the newest run that is none of the suite's, "" if there is none.
func other(ctx context.Context, engine *workloop.Engine) (string, error) {
	const newest = 100
	page, err := engine.Runs(ctx, workloop.Filter{Limit: newest, Scan: newest})
	if err != nil {
		return "", err
	}
	for _, row := range page.Rows {
		if row.Principal != workloop.EscapePrincipal {
			return row.Thread, nil
		}
	}
	return "", nil
}
