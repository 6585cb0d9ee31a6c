// Command accept drives a running suite as its users do and says, in TAP, what it expected and what it saw. It makes tenants
// with the operator's tool, speaks MCP over HTTP with their tokens, lets adversaries loose in their sandboxes, and asks the
// host itself, through ps(1), jls(8) and rctl(8), whether anything is left.
//
//	accept [flags] acceptance | adversaries | survive -- COMMAND... | crash | work | escape | faculty | drain | bench | script
//
// It needs no network, writes no file but those it is told to, and destroys the tenants that it made. "faculty" also names its
// files in the configuration and restarts daemons; whoever runs it puts the configuration back. "script" only prints what work.script
// of the configuration must hold for the rest. The exit status is 1 if a check failed, 2 if it could not go on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // tenants are destroyed whoever reads
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the command line.
type options struct {
	cli       string // the operator's tool
	config    string
	endpoint  string
	adversary string // the program that tenants run
	prefix    string // of jails
	atOnce    int
	patience  float64 // multiplies every time limit: emulated hosts are slow
	tenants   int     // idle ones of the benchmark
	output    string  // JSON of the benchmark
	small     bool    // small adversaries: FreeBSD 13 never gives the process numbers of nested reapers back
	service   string  // service(8), or what stands for it
	logs      string  // the folder of the daemons' logs
	data      string  // the folder of playgroundd's data
	folder    string  // of faculty: where it may write
	notebook  string  // the faculty's program
	command   []string
}

// errUsage is a command line that was refused; the reason was written.
var errUsage = errors.New("bad usage")

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("accept", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.cli, "playground", "/usr/local/sbin/playground", "the operator's tool")
	set.StringVar(&o.config, "config", "/usr/local/etc/playground/playground.toml", "configuration of the running suite")
	set.StringVar(&o.endpoint, "endpoint", "http://127.0.0.1:8787/mcp", "where it serves MCP")
	set.StringVar(&o.adversary, "adversary", "./pgadversary", "program to let loose")
	set.StringVar(&o.prefix, "prefix", "pgkit", "prefix of the suite's jails, as configured")
	set.IntVar(&o.atOnce, "at-once", 1, "adversaries: jobs at once")
	set.Float64Var(&o.patience, "patience", 1, "multiply every time limit by this")
	set.IntVar(&o.tenants, "tenants", 200, "bench: idle tenants; 0 leaves them out")
	set.StringVar(&o.output, "json", "", "bench: also write the numbers to this file")
	set.BoolVar(&o.small, "small", false, "adversaries: small chains, for a host that must not be restarted (FreeBSD 13)")
	set.StringVar(&o.service, "service", "/usr/sbin/service", "what starts and stops daemons")
	set.StringVar(&o.logs, "logs", "/var/log/playground", "folder of the daemons' logs")
	set.StringVar(&o.data, "data", "/var/db/playground/playgroundd", "folder of playgroundd's data")
	set.StringVar(&o.folder, "folder", "", "faculty: an empty folder for its files")
	set.StringVar(&o.notebook, "notebook", "./notebook", "faculty: its program")
	if err := set.Parse(args); err != nil {
		return o, errUsage
	}
	o.command = set.Args()
	if len(o.command) == 0 || o.atOnce < 1 || o.atOnce > 32 || o.patience <= 0 || o.tenants < 0 {
		fmt.Fprintln(stderr, "usage: accept [flags] acceptance | adversaries | survive -- COMMAND... | crash | work | escape | faculty | drain | bench | script")
		return o, errUsage
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	w := &world{options: o, report: &report{out: stdout}, host: newHost(o.prefix, o.config), mark: strconv.FormatInt(time.Now().UnixMilli()%1_679_616, 36)}
	parts := map[string]func(context.Context) error{
		"acceptance": w.acceptance, "adversaries": w.adversaries, "survive": w.survive, "crash": w.crash, "bench": w.bench,
		"work": w.work, "escape": w.escape, "faculty": w.faculty, "drain": w.drain,
	}
	if o.command[0] == "script" { // for the configuration, before anything runs
		if err := writeScript(stdout, o.patience); err != nil {
			return 1
		}
		return 0
	}
	part, known := parts[o.command[0]]
	if !known {
		fmt.Fprintf(stderr, "accept: unknown part %q\n", o.command[0])
		return 2
	}
	w.report.stopped = func() bool { return ctx.Err() != nil }
	err = part(ctx)
	// What was interrupted must be cleared up all the same.
	clearing, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.limit(2*time.Minute+time.Duration(len(w.made))*5*time.Second))
	defer cancel()
	if err != nil {
		w.report.check(false, o.command[0]+": goes to its end", "no error", "%v", err)
	}
	w.report.stopped = nil // clearing up is not ended
	w.close(clearing)
	w.report.plan()
	switch {
	case ctx.Err() != nil:
		return 2
	case w.report.failed > 0:
		return 1
	}
	return 0
}
