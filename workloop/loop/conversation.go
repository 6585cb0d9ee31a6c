package loop

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"playground/inference"
)

// Bounds of a conversation.
const (
	maxCalls     = 32        // tool calls of one reply that are looked at
	maxTalk      = 384 << 10 // bytes of text and arguments, after which old parts are shortened
	keptMessages = 8         // the last ones, which stay as they are
	stub         = 512       // bytes that a shortened result keeps
)

// wellFormedID is what model services take as the id of a call, and wellFormedName as the name of a tool.
var (
	wellFormedID   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	wellFormedName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
)

// A conversation is what the model has been told and what it said. Its messages always have the form that model services
// ask for: sides alternate, no block is empty, and every call is answered in the next message, in order.
type conversation struct {
	messages []inference.Message
	results  []inference.Block // of the next message: answers to calls, which come first,
	remarks  []inference.Block // and then what else there is to say
	spoke    bool              // a person's words are among the remarks
	ids      map[string]bool   // of all calls so far
	opening  []inference.Block // the first message, whole
	left     int               // turns that are left out after it
}

// newConversation begins with the opening of s and, at a resume, with what was said before.
func newConversation(s Spec) conversation {
	c := conversation{ids: map[string]bool{}}
	c.remark(openingText(s))
	if len(s.History) > 0 {
		for _, m := range s.History {
			c.replay(m)
		}
		c.answerAll()
		c.remark(resumeText(s))
	} else {
		c.remark(s.Opening)
	}
	return c
}

// replay takes over a message of an earlier start.
func (c *conversation) replay(m inference.Message) {
	if m.Role == inference.Assistant {
		blocks := make([]inference.Block, 0, len(m.Content))
		for _, b := range m.Content {
			switch {
			case b.Type == inference.Text && strings.TrimSpace(b.Text) != "":
				blocks = append(blocks, textBlock(b.Text))
			case b.Type == inference.ToolUse:
				args, _ := cleanArgs(b.Input)
				blocks = append(blocks, inference.Block{Type: inference.ToolUse, ID: c.newID(b.ID, len(c.messages), len(blocks)), Name: cleanName(b.Name), Input: args})
			}
		}
		c.answerAll()
		c.say(blocks)
		return
	}
	for _, b := range m.Content {
		switch {
		case b.Type == inference.ToolResult && c.open(b.ToolUseID):
			c.result(b.ToolUseID, b.Text, b.IsError)
		case b.Type == inference.Text:
			c.remark(b.Text)
		}
	}
}

// open reports whether the last message asks for the result of a call that is not answered yet.
func (c *conversation) open(id string) bool {
	answered := slices.ContainsFunc(c.results, func(b inference.Block) bool { return b.ToolUseID == id })
	return !answered && slices.ContainsFunc(c.lastCalls(), func(b inference.Block) bool { return b.ID == id })
}

// lastCalls returns the calls of the last message.
func (c *conversation) lastCalls() []inference.Block {
	if len(c.messages) == 0 || c.messages[len(c.messages)-1].Role != inference.Assistant {
		return nil
	}
	var calls []inference.Block
	for _, b := range c.messages[len(c.messages)-1].Content {
		if b.Type == inference.ToolUse {
			calls = append(calls, b)
		}
	}
	return calls
}

// answerAll answers the calls that nobody has answered, and puts the answers into the order of the calls.
func (c *conversation) answerAll() {
	calls := c.lastCalls()
	ordered := make([]inference.Block, 0, len(calls))
	for _, call := range calls {
		i := slices.IndexFunc(c.results, func(b inference.Block) bool { return b.ToolUseID == call.ID })
		if i < 0 {
			ordered = append(ordered, resultBlock(call.ID, "This call was not run.", true))
			continue
		}
		ordered = append(ordered, c.results[i])
	}
	c.results = ordered
}

// say adds a message of the model, after the one that is due to it.
func (c *conversation) say(blocks []inference.Block) {
	c.flush()
	if len(blocks) == 0 {
		return
	}
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == inference.Assistant {
		c.messages[n-1].Content = append(slices.Clip(c.messages[n-1].Content), blocks...)
		return
	}
	c.messages = append(c.messages, inference.Message{Role: inference.Assistant, Content: blocks})
}

// flush makes a message of what has gathered for the model.
func (c *conversation) flush() {
	blocks := slices.Concat(c.results, c.remarks)
	c.results, c.remarks, c.spoke = nil, nil, false
	if len(blocks) == 0 {
		return
	}
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == inference.User {
		c.messages[n-1].Content = append(slices.Clip(c.messages[n-1].Content), blocks...)
		return
	}
	c.messages = append(c.messages, inference.Message{Role: inference.User, Content: blocks})
}

// next returns the messages to send. The model speaks next, so the last one is never its own.
func (c *conversation) next() []inference.Message {
	c.answerAll()
	c.flush()
	if n := len(c.messages); n == 0 || c.messages[n-1].Role == inference.Assistant {
		c.remark("Go on.")
		c.flush()
	}
	if c.opening == nil {
		c.opening = c.messages[0].Content
	}
	c.shorten()
	return slices.Clone(c.messages)
}

// result answers a call.
func (c *conversation) result(id, content string, isError bool) {
	c.results = append(c.results, resultBlock(id, content, isError))
}

// remark says something beside the results; an empty text says nothing.
func (c *conversation) remark(text string) {
	if text = strings.ToValidUTF8(text, "\ufffd"); strings.TrimSpace(text) != "" {
		c.remarks = append(c.remarks, textBlock(text))
	}
}

// person passes on what a person said.
func (c *conversation) person(text string) {
	if strings.TrimSpace(text) != "" {
		c.remark(personText + Bound(text, MaxContent))
		c.spoke = true
	}
}

// personSpoke reports whether the model has not yet seen what a person said.
func (c *conversation) personSpoke() bool { return c.spoke }

// A reply is what a model answered, made well-formed.
type reply struct {
	text  string
	cut   bool // it ended at the output limit
	calls []call
}

// A call is a tool call of a reply.
type call struct {
	id      string
	tool    string
	args    []byte // canonical, an object
	problem string // why the arguments cannot be used; "" if they can
}

// reply takes the model's reply into the conversation.
func (c *conversation) reply(completion Completion, turn int) reply {
	r := reply{cut: completion.StopReason == inference.MaxTokens}
	var blocks []inference.Block
	var texts []string
	ignored, said := 0, 0
	for _, b := range completion.Content {
		switch {
		case b.Type == inference.Thinking && isThinking(b):
			blocks = append(blocks, inference.Block{Type: b.Type, Input: b.Input})
			continue
		case b.Type == inference.Text && strings.TrimSpace(b.Text) != "":
			text := Bound(b.Text, maxReply)
			texts, blocks = append(texts, strings.TrimSpace(text)), append(blocks, textBlock(text))
		case b.Type == inference.ToolUse && len(r.calls) == maxCalls:
			ignored++
			continue
		case b.Type == inference.ToolUse:
			args, problem := cleanArgs(b.Input)
			one := call{id: c.newID(b.ID, turn, len(r.calls)), tool: cleanName(b.Name), args: args, problem: problem}
			r.calls = append(r.calls, one)
			blocks = append(blocks, inference.Block{Type: inference.ToolUse, ID: one.id, Name: one.tool, Input: one.args})
		default:
			continue
		}
		said = len(blocks)
	}
	c.say(blocks[:said]) // thinking that nothing follows may be cut
	r.text = strings.Join(texts, "\n\n")
	if ignored > 0 {
		c.remark(fmt.Sprintf("Only the first %d of your %d tool calls were looked at; %d were not run.", maxCalls, maxCalls+ignored, ignored))
	}
	return r
}

// isThinking reports whether a block is one that goes back to the model as it came.
func isThinking(b inference.Block) bool {
	var whole map[string]json.RawMessage
	return len(b.Input) <= maxReply && json.Unmarshal(b.Input, &whole) == nil && whole != nil
}

// newID returns id if it is well formed and new in this conversation, else one that is.
func (c *conversation) newID(id string, turn, n int) string {
	for try := 0; !wellFormedID.MatchString(id) || c.ids[id]; try++ {
		id = fmt.Sprintf("call_%d_%d_%d", turn, n, try)
	}
	c.ids[id] = true
	return id
}

// cleanName returns a tool's name with what no tool's name may hold replaced.
func cleanName(name string) string {
	if wellFormedName.MatchString(name) {
		return name
	}
	clean := strings.Map(func(c rune) rune {
		if c < 0x80 && wellFormedName.MatchString(string(c)) {
			return c
		}
		return '_'
	}, name[:min(len(name), maxName)])
	if clean == "" {
		return "_"
	}
	return clean
}

// shorten cuts old tool results once the conversation is longer than maxTalk, and leaves out whole old turns where that is
// not enough. It goes down to three quarters of maxTalk, so that it does not happen at each turn: a model service's cache of the
// conversation is lost each time.
func (c *conversation) shorten() {
	const goal = maxTalk / 4 * 3
	size := sizeOf(c.messages)
	if size <= maxTalk {
		return
	}
	for i := range max(0, len(c.messages)-keptMessages) {
		content := slices.Clone(c.messages[i].Content) // requests that were sent share the old one
		for j, b := range content {
			if b.Type == inference.ToolResult && len(b.Text) > 2*stub && size > goal {
				content[j].Text = Bound(b.Text, stub)
				size -= len(b.Text) - len(content[j].Text)
			}
		}
		c.messages[i].Content = content
	}
	// The first message is the opening; after it, each reply and what answers it go together.
	drop := 0
	for size > goal && len(c.messages)-1-(drop+2) >= keptMessages {
		size -= sizeOf(c.messages[1+drop : 3+drop])
		drop += 2
	}
	if drop > 0 {
		c.left += drop / 2
		opening := append(slices.Clone(c.opening), textBlock(fmt.Sprintf("%d turns are left out here, because the conversation has become long. "+
			"The records of this run's thread tell of them.", c.left)))
		c.messages = append([]inference.Message{{Role: inference.User, Content: opening}}, c.messages[1+drop:]...)
	}
}

// sizeOf returns how many bytes of text and arguments messages hold.
func sizeOf(messages []inference.Message) int {
	size := 0
	for _, m := range messages {
		for _, b := range m.Content {
			size += len(b.Text) + len(b.Input)
		}
	}
	return size
}

func textBlock(text string) inference.Block {
	return inference.Block{Type: inference.Text, Text: strings.ToValidUTF8(text, "\ufffd")}
}

func resultBlock(id, content string, isError bool) inference.Block {
	if strings.TrimSpace(content) == "" {
		content = "(no output)"
	}
	return inference.Block{Type: inference.ToolResult, ToolUseID: id, Text: strings.ToValidUTF8(content, "\ufffd"), IsError: isError}
}
