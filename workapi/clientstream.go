package workapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"playground/fault"
	"playground/localapi"
)

// maxEventLine bounds one line of a stream: a record of the largest body.
const maxEventLine = 8 << 20

// RunEvents yields the events of a run until its outcome: with replay from its beginning, else those after after, or from now
// on. It ends with ctx, with an error, when the daemon has sent the outcome, or when the daemon stops: the last event tells.
func (c *Client) RunEvents(ctx context.Context, thread string, replay bool, after int64) iter.Seq2[StreamEvent, error] {
	return c.stream(ctx, localapi.Join("/v1/runs/%s/events", thread)+"?replay="+strconv.FormatBool(replay), after)
}

// WatchThread yields the records of a thread as they are written, with replay those that are there first. It ends with ctx.
func (c *Client) WatchThread(ctx context.Context, thread string, replay bool, after int64) iter.Seq2[StreamEvent, error] {
	return c.stream(ctx, localapi.Join("/v1/threads/%s/watch", thread)+"?replay="+strconv.FormatBool(replay), after)
}

// Events yields the records of all threads, or of one, as they are written. types filters by the events' types, nil is all.
func (c *Client) Events(ctx context.Context, thread string, types []string, after int64) iter.Seq2[StreamEvent, error] {
	values := url.Values{}
	setText(values, "thread", thread)
	setText(values, "type", strings.Join(types, ","))
	return c.stream(ctx, "/v1/events/stream?"+values.Encode(), after)
}

// stream reads a stream of server-sent events.
func (c *Client) stream(ctx context.Context, path string, after int64) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		header := c.header()
		header.Set("Accept", "text/event-stream")
		if after > 0 {
			header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
		}
		resp, err := c.api.Send(ctx, http.MethodGet, path, header, nil)
		if err != nil {
			yield(StreamEvent{}, err)
			return
		}
		defer resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
		case http.StatusNoContent: // there is no more
			return
		default:
			yield(StreamEvent{}, readError(resp))
			return
		}
		reader := bufio.NewReaderSize(resp.Body, 64<<10)
		for {
			event, err := readEvent(reader)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				if _, ours := errors.AsType[*fault.Error](err); !ours {
					err = c.api.Lost(ctx, err)
				}
				yield(StreamEvent{}, err)
				return
			}
			if !yield(event, nil) {
				return
			}
		}
	}
}

// readEvent reads one event; comments between events are skipped.
func readEvent(reader *bufio.Reader) (StreamEvent, error) {
	var event StreamEvent
	var data []byte
	for {
		line, err := readLine(reader)
		if err != nil {
			return StreamEvent{}, err
		}
		if line == "" {
			if data == nil {
				continue
			}
			if err := json.Unmarshal(data, &event.Record); err != nil {
				return StreamEvent{}, fault.Wrap(fault.Internal, err, "cannot read an event of playgroundd")
			}
			return event, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			event.ID, _ = strconv.ParseInt(value, 10, 64) // 0 for what is no number
		case "event":
			event.Type = value
		case "data":
			data = append(data, value...)
		}
	}
}

// readLine reads a line of bounded length.
func readLine(reader *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, more, err := reader.ReadLine()
		if err != nil {
			return "", err
		}
		line = append(line, part...)
		if len(line) > maxEventLine {
			return "", fault.New(fault.TooLarge, "an event of playgroundd is over %d bytes", maxEventLine)
		}
		if !more {
			return string(line), nil
		}
	}
}
