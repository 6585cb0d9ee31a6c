package catalogue

import (
	"context"
	"fmt"
	"math"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tool is one entry of the catalogue.
type tool struct {
	name, title, about string
	params             []param
	output             map[string]any // schema of the structured result; nil = none
	readOnly           bool           // changes nothing in the sandbox
	destructive        bool           // may remove or replace what is there
	idempotent         bool
	openWorld          bool // may reach beyond the sandbox, where its network allows
	meta               mcp.Meta
	run                func(context.Context, *mcp.CallToolRequest, arguments) (*mcp.CallToolResult, error)
}

// describe makes a tool the SDK's. Every hint is said outright: clients take an absent one for the worst.
func (t tool) describe() *mcp.Tool {
	d := &mcp.Tool{
		Meta:        t.meta,
		Name:        t.name,
		Title:       t.title,
		Description: t.about,
		InputSchema: t.inputSchema(),
		Annotations: &mcp.ToolAnnotations{
			Title:           t.title,
			ReadOnlyHint:    t.readOnly,
			DestructiveHint: &t.destructive,
			IdempotentHint:  t.idempotent,
			OpenWorldHint:   &t.openWorld,
		},
	}
	if t.output != nil {
		d.OutputSchema = t.output
	}
	return d
}

// tools is the catalogue. Claude Code cuts descriptions at 2 KB, so all of them stay well below.
func (c *catalogue) tools() []tool {
	session := param{name: "session", kind: text, required: true, about: "The session id that open_session returned."}
	cwd := param{name: "cwd", kind: text, about: "Working directory inside the sandbox. Default: the session's."}
	return append(c.sessionTools(session), append(c.commandTools(session, cwd), c.fileTools(session, cwd)...)...)
}

func (c *catalogue) sessionTools(session param) []tool {
	return []tool{{
		name: "open_session", title: "Open session",
		about: "Open your sandbox and get its session id. The id is stable; files persist between sessions. " +
			"Give cwd and env to set where commands start and what environment they see, until the next open_session that names them. " +
			"Call close_session once for every open_session; a session left open expires by itself. " +
			"An unknown session in any tool means: call this again.",
		params: []param{
			{name: "tenant", kind: text, about: "Your own tenant name. Not needed: your credentials say who you are."},
			{name: "cwd", kind: text, about: "Working directory for the session's commands. Default: /workspace."},
			{name: "env", kind: texts, about: `Environment variables for the session's commands, for example {"LANG": "C"}.`},
		},
		output: sessionSchema(), run: c.openSession,
	}, {
		name: "close_session", title: "Close session",
		about:  "Give the session back. Files stay. Jobs that still run go on, and job_poll and job_cancel still work for them.",
		params: []param{session},
		output: closedSchema(), run: c.closeSession,
	}}
}

func (c *catalogue) commandTools(session, cwd param) []tool {
	l := c.options.Limits
	command := param{name: "command", kind: text, required: true,
		about: fmt.Sprintf("Shell text for /bin/sh, at most %d KiB; pipes, && and here-documents work.", l.CommandBytes>>10)}
	stdin := param{name: "stdin", kind: text, about: "Text for the command's standard input. Default: none (end of file at once)."}
	job := param{name: "job_id", kind: text, required: true, about: "The job id that job_exec returned."}
	return []tool{{
		name: "exec", title: "Run a command",
		about: fmt.Sprintf("Run one shell command and wait for its end. The first line of the answer is the outcome, then stdout, then stderr; "+
			"long output is cut in the middle. A non-zero exit is a normal answer. After timeout_ms (default %d, at most %d) the command is killed with all its processes. "+
			"Every call is a fresh login shell: cd and export do not carry over, files do. "+
			"Processes left in the background are killed when the command ends: use job_exec for servers and for anything slower.",
			l.ExecDefault.Milliseconds(), l.ExecMax.Milliseconds()),
		params: []param{session, command, cwd, stdin,
			{name: "timeout_ms", kind: integer, min: 1, max: l.ExecMax.Milliseconds(), about: "Time limit in milliseconds."}},
		destructive: true, openWorld: true, output: execSchema(), run: c.exec,
	}, {
		name: "job_exec", title: "Start a job",
		about: "Start one shell command in the background and return its job id at once. Read its output with job_poll; end it with job_cancel. " +
			"What the job serves on localhost can be reached from exec while it runs. The job's processes end with the job. " +
			fmt.Sprintf("Limits: %d running and %d kept jobs.", l.ActivePerTenant, l.RetainedPerTenant),
		params: []param{session, command, cwd, stdin,
			{name: "timeout_ms", kind: integer, min: 1, max: l.JobMax.Milliseconds(), about: "Time limit in milliseconds. Default: the longest."}},
		destructive: true, openWorld: true, output: jobSchema(), run: c.jobExec,
	}, {
		name: "job_poll", title: "Read a job's output",
		about: "Read a job's output from cursor on and see whether it has ended. Pass next_cursor of the last answer to go on; the same cursor again is safe. " +
			"wait_ms waits for news instead of asking over and over. gap and dropped_bytes tell of output that was too old to be kept. " +
			"The job has ended when result is set.",
		params: []param{job,
			{name: "cursor", kind: integer, max: math.MaxInt64, about: "Where to read from: 0 for the beginning (default), or next_cursor of the last answer."},
			{name: "wait_ms", kind: integer, max: l.WaitMax.Milliseconds(), about: "Wait up to this long for output or the end. Default: 0."}},
		readOnly: true, idempotent: true, output: pollSchema(), meta: largeResult(), run: c.jobPoll,
	}, {
		name: "job_cancel", title: "Cancel a job",
		about: "End a job and all its processes, also those that hide or ignore signals. Safe to repeat. " +
			"It returns at once; job_poll then shows the end and the clean-up receipt (killed, survivors, proven).",
		params:      []param{job},
		destructive: true, idempotent: true, output: jobSchema(), run: c.jobCancel,
	}}
}

func (c *catalogue) fileTools(session, cwd param) []tool {
	limit := fmt.Sprintf("At most %d bytes.", c.provider.FileBytes())
	path := param{name: "path", kind: text, required: true, about: "Path inside the sandbox; relative paths start at cwd."}
	return []tool{{
		name: "read", title: "Read a file",
		about: "Read a whole file, bytes exact: text as text, an image as an image, anything else as a base64 resource with its MIME type. " + limit +
			" For a part of a file use exec with head, tail or sed.",
		params:   []param{session, path, cwd},
		readOnly: true, idempotent: true, meta: largeResult(), run: c.read,
	}, {
		name: "write", title: "Write a file",
		about: "Make a file or replace its whole content, bytes exact, with text or base64 (give exactly one). " + limit +
			" The replacement is atomic where the file system allows (the answer says so); owner and mode are kept, symlinks followed. The folder must exist.",
		params: []param{session, path,
			{name: "text", kind: text, about: "The new content as text."},
			{name: "base64", kind: text, about: "The new content in standard base64, for bytes that are not text."}, cwd},
		destructive: true, idempotent: true, output: writeSchema(), run: c.write,
	}}
}

// largeResult asks Claude Code not to move a large result out of the conversation before it must.
func largeResult() mcp.Meta { return mcp.Meta{"anthropic/maxResultSizeChars": 500000} }
