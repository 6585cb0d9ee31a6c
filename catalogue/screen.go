package catalogue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"playground/fault"
)

// maxLine bounds one message over stdio: the largest file, with every byte of its text escaped in six, fits.
const maxLine = 20 << 20

// A screen hands on the lines of an input that are messages and answers the others itself. The SDK would end the connection at the
// first of those, and would let bytes that are no UTF-8 through as other characters.
type screen struct {
	in     io.ReadCloser
	lines  *bufio.Reader
	out    io.Writer
	rest   []byte // of the line that is handed on
	served bool   // a line was handed on
	bad    *BadMessage
	single bool // the client's version has no batches
}

func newScreen(in io.ReadCloser, out io.Writer) *screen {
	return &screen{in: in, lines: bufio.NewReaderSize(in, 64<<10), out: out}
}

// Read implements io.Reader. At the end of an input that held no message at all it says what was wrong with the last line.
func (s *screen) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		line, tooLong, err := s.line()
		if len(bytes.TrimSpace(line)) > 0 || tooLong {
			if err := s.take(line, tooLong); err != nil {
				return 0, err
			}
		} else if errors.Is(err, io.EOF) && s.bad != nil && !s.served {
			return 0, fault.New(fault.Invalid, "the input was not MCP: %s", s.bad.Text).
				WithHint("an MCP client starts this program and speaks to it, a JSON-RPC message a line")
		} else if err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// line reads one line, without what is over maxLine. With an error it returns what came before that.
func (s *screen) line() (line []byte, tooLong bool, err error) {
	for {
		piece, err := s.lines.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(piece) > maxLine; tooLong {
			line = nil
		} else {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// take hands a line on, or answers it.
func (s *screen) take(line []byte, tooLong bool) error {
	bad := s.inspect(line)
	if tooLong {
		bad = &BadMessage{jsonrpc.CodeInvalidRequest, fmt.Sprintf("the message is over the limit of %d bytes", maxLine), "write large files in parts", nil}
	}
	if bad == nil {
		s.rest, s.served = append(bytes.TrimSpace(line), '\n'), true
		return nil
	}
	s.bad = bad
	if bad.ID == nil {
		bad.ID = json.RawMessage("null")
	}
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": bad.ID, "error": map[string]any{
		"code": bad.Code, "message": bad.Text, "data": map[string]string{"hint": bad.Hint},
	}})
	if err != nil {
		return err
	}
	_, err = s.out.Write(append(answer, '\n'))
	return err
}

// inspect is Inspect for a line. Of a batch it looks at the form alone: the SDK answers its calls one by one.
func (s *screen) inspect(line []byte) *BadMessage {
	line = bytes.TrimSpace(line)
	var batch []json.RawMessage
	switch {
	case !utf8.Valid(line):
		return &BadMessage{jsonrpc.CodeParseError, "the message is not UTF-8", "send bytes as base64", nil}
	case bytes.HasPrefix(line, []byte("[")) && json.Unmarshal(line, &batch) == nil:
		if s.single {
			return &BadMessage{jsonrpc.CodeInvalidRequest, "this version of the protocol has no batches", "send one message a line", nil}
		}
		return inspectBatch(batch)
	case bytes.HasPrefix(line, []byte("{")) || !json.Valid(line):
		m, bad := Inspect(line)
		if m.Method == "initialize" && bad == nil {
			s.single = !hasBatches(line)
		}
		return bad
	}
	return &BadMessage{jsonrpc.CodeInvalidRequest, "that is not a JSON-RPC message", "send a JSON object", nil}
}

// hasBatches reports whether an initialize request asks for one of the versions that have them. Every other one, known or not, is
// answered with a version that has none.
func hasBatches(initialize []byte) bool {
	var m struct {
		Params struct{ ProtocolVersion string }
	}
	err := json.Unmarshal(initialize, &m)
	return err == nil && (m.Params.ProtocolVersion == "2024-11-05" || m.Params.ProtocolVersion == "2025-03-26")
}

func inspectBatch(batch []json.RawMessage) *BadMessage {
	for _, one := range batch {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			return &BadMessage{jsonrpc.CodeInvalidRequest, "a part of the batch is not a JSON-RPC message", "send JSON objects", nil}
		}
	}
	if len(batch) == 0 {
		return &BadMessage{jsonrpc.CodeInvalidRequest, "the batch is empty", "send a JSON object", nil}
	}
	return nil
}

// Close implements io.Closer.
func (s *screen) Close() error { return s.in.Close() }

// A lockedWriter lets the SDK and a screen write whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
