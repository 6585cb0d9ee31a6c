package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"playground/record"
	"playground/workapi"
	"playground/workloop"
	"playground/workloop/loop"
)

// A Screen says what standard output is. The zero value is a pipe or a file.
type Screen struct {
	Terminal bool       // lines may be redrawn
	Colour   bool       // and coloured
	Unicode  bool       // and hold more than ASCII
	Width    func() int // in columns; nil or less than 20: 80
}

// width is how many characters a line may have.
func (s Screen) width() int {
	if !s.Terminal {
		return 200
	}
	if s.Width != nil {
		if n := s.Width(); n >= 20 {
			return n - 1
		}
	}
	return 79
}

// The styles, as parameters of SGR (ECMA-48, 8.3.117).
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint returns text in a style, where the screen has colours.
func (s Screen) paint(style, text string) string {
	if !s.Colour || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// pick returns a sign, or its stand-in in ASCII.
func (s Screen) pick(sign, plain string) string {
	if s.Terminal && s.Unicode {
		return sign
	}
	return plain
}

// A runView shows the events of a run as they come. On a terminal its last line says what the run is doing.
type runView struct {
	out    io.Writer
	screen Screen
	held   map[string]string // id of a call's record -> its line, until the verdict is there
	order  int               // turns shown
	spent  float64
	doing  string
	begin  time.Time
	status bool // the last line is the status line
	frame  int
}

func newRunView(out io.Writer, screen Screen, now time.Time) *runView {
	return &runView{out: out, screen: screen, held: map[string]string{}, doing: "starting", begin: now}
}

// line prints a line with a sign before it. text may be long and is cut.
func (v *runView) line(style, sign, text string) {
	v.clear()
	room := max(20, v.screen.width()-len([]rune(sign))-1)
	fmt.Fprintf(v.out, "%s %s\n", v.screen.paint(style, sign), short(text, room))
}

// whole prints a text that must be read whole, after a sign: wrapped on a terminal, else on one line.
func (v *runView) whole(style, sign, text string) {
	if !v.screen.Terminal {
		v.clear()
		fmt.Fprintf(v.out, "%s %s\n", v.screen.paint(style, sign), safe(text))
		return
	}
	indent := strings.Repeat(" ", len([]rune(sign)))
	for i, line := range wrap(safe(text), max(20, v.screen.width()-len([]rune(sign))-1)) {
		if i > 0 {
			sign = indent
		}
		v.line(style, sign, line)
	}
}

// wrap cuts a line between words, into pieces of at most n characters.
func wrap(text string, n int) []string {
	var all []string
	var piece []rune
	for word := range strings.FieldsSeq(text) {
		next := []rune(word)
		if len(piece) > 0 && len(piece)+1+len(next) > n {
			all, piece = append(all, string(piece)), nil
		}
		if len(piece) > 0 {
			piece = append(piece, ' ')
		}
		for piece = append(piece, next...); len(piece) > n; piece = piece[n:] {
			all = append(all, string(piece[:n]))
		}
	}
	return append(all, string(piece))
}

// block prints a text of several lines, at most n of them, behind a bar: what an agent writes must not pass for what the
// view says.
func (v *runView) block(style, text string, n int) {
	v.clear()
	bar := "  " + v.screen.paint(dim, v.screen.pick("│", "|"))
	all := lines(text)
	for i, line := range all {
		if i == n {
			fmt.Fprintf(v.out, "%s %s\n", bar, v.screen.paint(dim, fmt.Sprintf("(%d more lines)", len(all)-n)))
			return
		}
		fmt.Fprintf(v.out, "%s %s\n", bar, v.screen.paint(style, short(line, max(20, v.screen.width()-4))))
	}
}

// clear takes the status line away.
func (v *runView) clear() {
	if v.status {
		fmt.Fprint(v.out, "\r\x1b[K")
		v.status = false
	}
}

// tick draws the status line anew.
func (v *runView) tick(now time.Time) {
	if !v.screen.Terminal {
		return
	}
	frames := []string{"|", "/", "-", `\`}
	if v.screen.Unicode {
		frames = strings.Split("⠋ ⠙ ⠹ ⠸ ⠼ ⠴ ⠦ ⠧ ⠇ ⠏", " ")
	}
	v.frame = (v.frame + 1) % len(frames)
	text := fmt.Sprintf("%s %s  %s  %s  Ctrl-C leaves it running", frames[v.frame], v.doing, now.Sub(v.begin).Round(time.Second), usd(v.spent))
	v.clear()
	fmt.Fprint(v.out, v.screen.paint(dim, short(text, v.screen.width())))
	v.status = true
}

// event shows one event.
func (v *runView) event(ev workapi.StreamEvent) {
	r := ev.Record
	switch ev.Type {
	case "start":
		v.start(r)
	case "turn":
		v.turn(r)
	case "tool_call":
		b := body[loop.ToolCallBody](r)
		v.held[r.ID] = b.Tool + " " + string(b.Args)
		v.doing = "turn " + strconv.Itoa(v.order) + ", judging " + short(b.Tool, 30)
	case "tool_verdict":
		v.verdict(r)
	case "tool_result":
		v.result(r)
	case "observation":
		b := body[loop.ObservationBody](r)
		v.whole(yellow, "  "+v.screen.pick("◆", "*"), b.Rule+": "+flat(b.Text))
	case "message":
		v.whole(cyan, "  >", "message: "+flat(body[loop.MessageBody](r).Text))
	case "ask":
		v.ask(r)
	case "decision":
		b := body[struct{ Decision string }](r)
		v.line(cyan, "  >", "answer: "+flat(b.Decision))
		v.doing = "going on"
	case "stop":
		v.line(cyan, "  >", flat(body[struct{ Reason string }](r).Reason)+"; it ends at its next step")
		v.doing = "stopping"
	case "error":
		v.trouble(r)
	case "outcome":
		v.outcome(r)
	}
}

// body reads a record's body; what does not fit stays empty.
func body[T any](r record.Record) T {
	var b T
	_ = json.Unmarshal(r.Body, &b)
	return b
}

func (v *runView) start(r record.Record) {
	b := body[struct {
		Actor, Principal, Tier, Transport, Model string
		Narrowed                                 []string
	}](r)
	v.line(dim, "  as", strings.Join([]string{or(b.Actor, b.Principal), b.Tier, strings.ReplaceAll(b.Transport, "_", " "), b.Model}, ", "))
	if len(b.Narrowed) > 0 {
		v.line(yellow, "  narrowed:", strings.Join(b.Narrowed, ", "))
	}
	v.doing = "waiting for the model"
}

func (v *runView) turn(r record.Record) {
	b := body[loop.TurnBody](r)
	v.order, v.spent = b.TurnIndex+1, v.spent+b.CostUSD
	v.clear()
	fmt.Fprintf(v.out, "%s %s\n", v.screen.paint(bold, fmt.Sprintf("turn %d", v.order)),
		v.screen.paint(dim, fmt.Sprintf("(%d tokens in, %d out, %s)", b.InputTokens, b.OutputTokens, usd(b.CostUSD))))
	v.block("", b.Text, 12)
	v.doing = fmt.Sprintf("turn %d, waiting for the model", v.order)
}

// release shows a call that was held back.
func (v *runView) release(call string) {
	if text, ok := v.held[call]; ok {
		v.line(cyan, "  "+v.screen.pick("→", "->"), flat(text))
		delete(v.held, call)
	}
}

func (v *runView) verdict(r record.Record) {
	b := body[struct{ Fulfills, Decision, Layer, Rule, Reason, Tool string }](r)
	v.release(b.Fulfills)
	v.doing = fmt.Sprintf("turn %d, running %s", v.order, short(b.Tool, 30))
	if b.Decision == loop.Allow {
		return
	}
	text := b.Decision + " by the " + b.Layer + " layer"
	if b.Decision == loop.Deny {
		text = "denied by the " + b.Layer + " layer"
	}
	if b.Rule != "" {
		text += ", rule " + b.Rule
	}
	v.whole(red, "  "+v.screen.pick("✗", "!"), text+": "+flat(b.Reason))
}

func (v *runView) result(r record.Record) {
	b := body[loop.ToolResultBody](r)
	v.release(b.Fulfills)
	v.doing = fmt.Sprintf("turn %d, waiting for the model", v.order)
	switch b.Status {
	case loop.StatusDenied, loop.StatusStopped: // the verdict has said it
	case loop.StatusOK:
		v.line(green, "  "+v.screen.pick("←", "<-"), "ok "+flat(b.Content))
	default:
		v.line(red, "  "+v.screen.pick("✗", "!"), strings.TrimSpace(or(b.Code, b.Status)+" "+flat(b.Content)))
	}
}

func (v *runView) ask(r record.Record) {
	b := body[struct {
		Question string
		Options  []string
	}](r)
	v.whole(yellow, "ASK:", flat(b.Question))
	for i, option := range b.Options {
		v.whole("", "  "+strconv.Itoa(i+1)+".", flat(option))
	}
}

func (v *runView) trouble(r record.Record) {
	b := body[struct {
		Verdict, Tool, Reason, Narrative string
		Count                            int
	}](r)
	if b.Verdict != "" {
		v.line(yellow, "  "+v.screen.pick("◆", "*"), fmt.Sprintf("guardrail %s: %s failed %d times in the same way", b.Verdict, b.Tool, b.Count))
		return
	}
	v.line(red, "  "+v.screen.pick("✗", "!"), strings.ReplaceAll(b.Reason, "_", " ")+": "+flat(b.Narrative))
}

func (v *runView) outcome(r record.Record) {
	b := body[struct {
		Outcome, State, Summary, Reason, Hint string
		OK                                    int     `json:"tool_calls_ok"`
		Failed                                int     `json:"tool_calls_failed"`
		SpentUSD                              float64 `json:"spent_usd"`
		ElapsedMS                             int64   `json:"elapsed_ms"`
		Turns                                 int
	}](r)
	if b.Outcome == loop.AwaitingActor {
		return // the question has said it
	}
	style, text := red, b.State
	if b.State == workloop.Done {
		style = green
	} else if b.Outcome != "" {
		text += " (" + strings.ReplaceAll(b.Outcome, "_", " ") + ")"
	}
	v.clear()
	fmt.Fprintf(v.out, "%s %s\n", v.screen.paint(bold, "outcome:"), v.screen.paint(style, safe(text)))
	v.block("", b.Summary, 40)
	if !strings.Contains(b.Summary, b.Reason) {
		v.block(yellow, b.Reason, 5)
	}
	if b.Hint != "" {
		v.whole(yellow, "  hint:", flat(b.Hint))
	}
	fmt.Fprintf(v.out, "  %s\n", v.screen.paint(dim, fmt.Sprintf("%d turns, tool calls %d ok and %d failed, %s, %s", b.Turns, b.OK, b.Failed, usd(b.SpentUSD),
		time.Duration(b.ElapsedMS)*time.Millisecond)))
}
