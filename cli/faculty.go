package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"playground/config"
	"playground/faculty"
	"playground/fault"
	"playground/localapi/facultyapi"
)

// facultyTime bounds one change of a worker: a start stages a token, a stop proves an end.
const facultyTime = 90 * time.Second

const startFacultyd = "start it: service playground_facultyd start; `playground up` starts it where faculty.definitions is set"

// workers calls f with a client of playground-facultyd. A configuration that does not load, or that defines no workers any more,
// must not keep the operator from stopping what runs: the daemon is asked all the same, and the mistake told beside.
func (e *Env) workers(f func(*facultyapi.Client) error) error {
	path, err := e.ConfigPath()
	if err != nil {
		return err
	}
	c, configErr := config.Load(path)
	socket := config.LooseFacultySocket(path)
	if configErr == nil {
		socket = c.FacultySocket()
	} else {
		fmt.Fprintf(e.Stderr, "warning: %v\n", configErr)
	}
	client := facultyapi.NewClient(socket)
	defer client.Disconnect()
	err = f(client)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.Unavailable && strings.HasPrefix(e.Message, "cannot reach") {
		_ = e.WithHint("%s", startFacultyd)
	}
	if configErr == nil && c.Faculty.Definitions == "" && errors.Is(err, fault.Unavailable) {
		return fault.New(fault.Unsupported, "this host has no faculty workers: faculty.definitions names no file").
			WithHint("playground-facultyd(8) tells how to define some; then %s", startFacultyd)
	}
	return err
}

// FacultyList prints the workers. One that should run and does not makes it end with status 1.
func (e *Env) FacultyList(ctx context.Context) error {
	return e.workers(func(client *facultyapi.Client) error {
		listing, err := client.List(ctx)
		if err != nil {
			return err
		}
		if e.JSON {
			return errors.Join(e.printJSON(listing), troubled(listing))
		}
		if err := e.showWorkers(listing); err != nil {
			return err
		}
		if c, err := e.load(); err == nil && len(listing.Workers) > 0 {
			e.unreached(c)
		}
		return troubled(listing)
	})
}

// unreached tells of workers that no client gets to, since playgroundd serves the tools of sandboxes: it does not ask for their health either.
func (e *Env) unreached(c config.Config) {
	if c.HTTP.Catalogue != config.CatalogueWorkers {
		fmt.Fprintf(e.Stderr, "clients do not reach these workers: http.catalogue is %q; to serve them set it to %q, name them in gateway.manifest, and restart playgroundd\n",
			c.HTTP.Catalogue, config.CatalogueWorkers)
	}
}

func (e *Env) showWorkers(listing faculty.Listing) error {
	if listing.Problem != "" {
		fmt.Fprintf(e.Stderr, "the definitions are not valid any more; workers go on as they are:\n  %s\n", listing.Problem)
	}
	if len(listing.Workers) == 0 {
		_, err := fmt.Fprintln(e.Stderr, "no workers are defined")
		return err
	}
	var rows [][]string
	for _, w := range listing.Workers {
		rows = append(rows, workerRow(w, time.Now()))
	}
	if err := table(e.Stdout, []string{"WORKER", "STATE", "PID", "FOR", "RESTARTS", "HEALTH", "MEMORY", "ADDRESS", "LAST EXIT"}, rows); err != nil {
		return err
	}
	for _, w := range listing.Workers {
		if w.Problem != "" {
			fmt.Fprintf(e.Stderr, "%s: %s\n", w.ID, w.Problem)
		}
		if w.Health != nil && !w.Health.OK {
			fmt.Fprintf(e.Stderr, "%s: health: %s\n", w.ID, w.Health.Problem)
		}
		if w.Stale && w.State != faculty.Stopped {
			fmt.Fprintf(e.Stderr, "%s: the definitions have changed; take them over: playground faculty restart %s\n", w.ID, w.ID)
		}
	}
	return nil
}

// workerRow is one worker in the list.
func workerRow(w faculty.Worker, now time.Time) []string {
	state, pid, since, health, memory, exit := string(w.State), "-", "-", "-", "-", "-"
	if w.ByHand {
		state += " (by hand)"
	}
	if w.Pid > 0 {
		pid = strconv.Itoa(w.Pid)
	}
	if !w.Since.IsZero() {
		since = now.Sub(w.Since).Round(time.Second).String()
	}
	if w.State == faculty.Running {
		health = "unknown"
	}
	if h := w.Health; h != nil && h.OK {
		health = fmt.Sprintf("ok, %d tools", h.Tools)
	} else if h != nil {
		health = "FAILING"
	}
	if n, ok := w.Usage["memoryuse"]; ok {
		memory = mebibytes(n)
	}
	if w.LastExit != nil {
		exit = w.LastExit.String()
	}
	return []string{w.ID, state, pid, since, strconv.Itoa(w.Restarts), health, memory, w.Address, exit}
}

// troubled is StatusError(1) when a worker that should serve does not.
func troubled(listing faculty.Listing) error {
	bad := listing.Problem != "" || slices.ContainsFunc(listing.Workers, func(w faculty.Worker) bool {
		return w.State == faculty.Failed || w.State == faculty.Backoff || w.Health != nil && !w.Health.OK ||
			w.LastExit != nil && !w.LastExit.Result.Cleanup.Proven
	})
	if bad {
		return StatusError(1)
	}
	return nil
}

// A FacultyTarget says which workers a command is for.
type FacultyTarget struct {
	Worker string
	All    bool
}

// FacultyStart starts workers with what the definitions say now.
func (e *Env) FacultyStart(ctx context.Context, target FacultyTarget) error {
	return e.changeWorkers(ctx, target, (*facultyapi.Client).Start, func(w faculty.Worker) bool { return w.State != faculty.Running })
}

// FacultyStop stops workers and proves that nothing of them is left. It needs no valid configuration.
func (e *Env) FacultyStop(ctx context.Context, target FacultyTarget) error {
	return e.changeWorkers(ctx, target, (*facultyapi.Client).Stop, func(w faculty.Worker) bool { return w.State != faculty.Stopped })
}

// FacultyRestart stops and starts workers with what the definitions say now.
func (e *Env) FacultyRestart(ctx context.Context, target FacultyTarget) error {
	return e.changeWorkers(ctx, target, (*facultyapi.Client).Restart, func(w faculty.Worker) bool { return w.State != faculty.Stopped })
}

// changeWorkers makes one change to the named worker, or to all that it is for, and shows each as it then is.
func (e *Env) changeWorkers(ctx context.Context, target FacultyTarget, change func(*facultyapi.Client, context.Context, string) (faculty.Worker, error),
	meant func(faculty.Worker) bool) error {
	return e.workers(func(client *facultyapi.Client) error {
		ids := []string{target.Worker}
		if target.All {
			listing, err := client.List(ctx)
			if err != nil {
				return err
			}
			ids = nil
			for _, w := range listing.Workers {
				if meant(w) {
					ids = append(ids, w.ID)
				}
			}
		}
		var all []faculty.Worker
		var errs []error
		for _, id := range ids {
			limit, cancel := context.WithTimeout(ctx, facultyTime)
			worker, err := change(client, limit, id)
			cancel()
			if err != nil {
				errs = append(errs, err)
				continue
			}
			all = append(all, worker)
		}
		return errors.Join(errors.Join(errs...), e.showChanged(all))
	})
}

func (e *Env) showChanged(all []faculty.Worker) error {
	listing := faculty.Listing{Workers: all}
	if e.JSON {
		if all == nil {
			listing.Workers = []faculty.Worker{}
		}
		return errors.Join(e.printJSON(listing), troubled(listing))
	}
	for _, w := range all {
		text := fmt.Sprintf("worker %s is %s", w.ID, w.State)
		if w.State == faculty.Stopped && w.LastExit != nil {
			clean := w.LastExit.Result.Cleanup
			text += fmt.Sprintf("; killed %d, nothing is left: %v", clean.Killed, clean.Proven)
		}
		if w.Problem != "" {
			text += ": " + w.Problem
		}
		if _, err := fmt.Fprintln(e.Stdout, text); err != nil {
			return err
		}
	}
	return troubled(listing)
}

// How the log is shown.
const (
	followPeriod = 500 * time.Millisecond
	logTail      = 64 << 10
)

// FacultyLogs prints the end of a worker's log, at most so many lines, and with follow what comes after until ctx ends. What the
// worker wrote is the tenant's: bytes that would command a terminal are shown as codes.
func (e *Env) FacultyLogs(ctx context.Context, id string, lines int, follow bool) error {
	return e.workers(func(client *facultyapi.Client) error {
		page, err := client.Log(ctx, id, -logTail)
		if err != nil {
			return err
		}
		if err := plainText(e.Stdout, lastLines(page.Data, lines)); err != nil || !follow {
			return err
		}
		for {
			select {
			case <-ctx.Done():
				return nil // an interrupted follow has done what it should
			case <-time.After(followPeriod):
			}
			page, err = client.Log(ctx, id, page.Next)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if err := plainText(e.Stdout, page.Data); err != nil {
				return err
			}
		}
	})
}

// lastLines returns the last n lines.
func lastLines(data []byte, n int) []byte {
	end := len(data)
	if end > 0 && data[end-1] == '\n' {
		end--
	}
	for i := end - 1; i >= 0; i-- {
		if data[i] == '\n' {
			if n--; n <= 0 {
				return data[i+1:]
			}
		}
	}
	return data
}

// plainText writes text with its control characters, those of the writing direction too, but for line ends and tabs, as codes.
func plainText(w io.Writer, data []byte) error {
	var b strings.Builder
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError && size == 1, r < ' ', r >= 0x7f && r < 0xa0, unicode.Is(unicode.Bidi_Control, r):
			for _, c := range data[:size] {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.Write(data[:size])
		}
		data = data[size:]
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// FacultyCheck reads the definitions and every token file, as playground-facultyd would, compares them with the gateway's manifest, and
// tells all that is wrong.
func (e *Env) FacultyCheck(context.Context) error {
	c, err := e.load()
	if err != nil {
		return err
	}
	defs, err := definitions(c)
	if err != nil {
		return err
	}
	if c.HTTP.Catalogue == config.CatalogueWorkers {
		m, err := manifest(c)
		if err != nil {
			return err
		}
		if wrong := disagreements(c, m, defs); len(wrong) > 0 {
			return fault.New(fault.Invalid, "%s", strings.Join(wrong, "; ")).
				WithHint("make %s and %s say the same of each worker", c.Faculty.Definitions, c.Gateway.Manifest)
		}
	}
	if wrong := tokenProblems(c, defs); len(wrong) > 0 {
		return fault.New(fault.Invalid, "%s", strings.Join(wrong, "; ")).
			WithHint("make a token with openssl rand -hex 32, in a file of root or of %s with mode 0400: playground-facultyd(8) shows how", c.Host.DaemonUser)
	}
	if e.JSON {
		return e.printJSON(map[string]any{"definitions": c.Faculty.Definitions, "workers": len(defs)})
	}
	_, err = fmt.Fprintf(e.Stdout, "%s is correct: %d workers\n", c.Faculty.Definitions, len(defs))
	e.unreached(c)
	return err
}

func definitions(c config.Config) ([]faculty.Definition, error) {
	if c.Faculty.Definitions == "" {
		return nil, fault.New(fault.Invalid, "faculty.definitions names no file").WithHint("playground-facultyd(8) describes the file")
	}
	return faculty.Load(c.Faculty.Definitions, config.PrivateFile)
}

// tokenProblems says which workers' tokens playground-facultyd could not use.
func tokenProblems(c config.Config, defs []faculty.Definition) (wrong []string) {
	owners := make(map[[sha256.Size]byte]faculty.Definition)
	for _, def := range defs {
		token, err := c.WorkerToken(def.TokenFile)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("worker %s: %v", def.ID(), err))
			continue
		}
		sum := sha256.Sum256(token)
		clear(token)
		if other, taken := owners[sum]; taken && other.Tenant != def.Tenant {
			wrong = append(wrong, fmt.Sprintf("worker %s: it has the same token as %s, so that each tenant could speak to the other's worker", def.ID(), other.ID()))
		}
		owners[sum] = def
	}
	return wrong
}
