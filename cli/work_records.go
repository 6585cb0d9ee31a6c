package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"playground/fault"
	"playground/record"
	"playground/workapi"
)

// A NewRecord is what "playground know" and its sisters write.
type NewRecord struct {
	Act      record.Act // of the command
	Override string     // --act
	Text     string
	Thread   string // "": a new one
	Actor    string // "": the operator
	Body     string // a JSON object
	Fulfills string
	Parents  []string
}

// textKey is the field of a body that the text goes into.
func (n NewRecord) textKey() string {
	if n.Act == record.ActIntend {
		return "goal"
	}
	return "text"
}

// RecordWrite writes a record.
func (e *Env) RecordWrite(ctx context.Context, n NewRecord) error {
	body, err := objectOf("--body", n.Body)
	if err != nil {
		return err
	}
	if n.Text != "" {
		body[n.textKey()] = n.Text
	}
	if n.Fulfills != "" {
		body["fulfills"] = n.Fulfills
	}
	if len(body) == 0 {
		return fault.New(fault.Invalid, "there is nothing to record").WithHint("give a text, or --body with a JSON object")
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	write := workapi.NewRecord{Act: n.Act, Actor: n.Actor, Thread: n.Thread, Body: encoded, Parents: n.Parents}
	if n.Override != "" {
		write.Act = record.Act(n.Override)
	}
	if write.Thread == "" {
		write.Thread = record.NewThread()
	}
	return e.works(func(client *workapi.Client) error {
		written, err := client.WriteRecord(ctx, write)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(written)
		}
		_, err = fmt.Fprintf(e.Stdout, "Record created on thread %s\nid %s\n", safe(written.Thread), safe(written.ID))
		return err
	})
}

// ThreadList prints a page of threads.
func (e *Env) ThreadList(ctx context.Context, after int64, limit int) error {
	return e.works(func(client *workapi.Client) error {
		list, err := client.Threads(ctx, after, limit)
		if err != nil {
			return err
		}
		return printList(e, list, list.Data, func() error {
			var rows [][]string
			for _, t := range list.Data {
				rows = append(rows, []string{safe(t.ID), string(t.State), strconv.FormatInt(t.Records, 10), strconv.FormatInt(t.LastClock, 10), short(strings.Join(t.Participants, ", "), 60)})
			}
			if err := table(e.Stdout, []string{"THREAD", "STATE", "RECORDS", "CLOCK", "PARTICIPANTS"}, rows); err != nil {
				return err
			}
			if list.HasMore {
				fmt.Fprintf(e.Stderr, "there are more: --after %d\n", list.NextAfter)
			}
			return nil
		})
	})
}

// ThreadShow prints what is known of a thread.
func (e *Env) ThreadShow(ctx context.Context, id string) error {
	return e.works(func(client *workapi.Client) error {
		t, err := client.Thread(ctx, id)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(t)
		}
		all := [][2]string{{"thread", safe(t.ID)}, {"state", string(t.State)}, {"opened by", or(safe(t.Opened), "-")}, {"records", strconv.FormatInt(t.Records, 10)},
			{"sequences", fmt.Sprintf("%d to %d", t.FirstSequence, t.LastSequence)}, {"last clock", strconv.FormatInt(t.LastClock, 10)}}
		for _, did := range t.Participants {
			all = append(all, [2]string{"participant", safe(did)})
		}
		return pairs(e.Stdout, all)
	})
}

// ThreadRecords prints the records of a thread.
func (e *Env) ThreadRecords(ctx context.Context, id string, after int64, limit int) error {
	return e.works(func(client *workapi.Client) error {
		list, err := client.ThreadRecords(ctx, id, after, limit)
		if err != nil {
			return err
		}
		return printList(e, list, list.Data, func() error {
			var rows [][]string
			for _, r := range list.Data {
				rows = append(rows, []string{strconv.FormatInt(r.Sequence, 10), strconv.FormatInt(r.Clock, 10), string(r.Act), safe(r.Actor), short(string(r.Body), 120)})
			}
			return table(e.Stdout, []string{"SEQUENCE", "CLOCK", "ACT", "ACTOR", "BODY"}, rows)
		})
	})
}

// RecordsVerify checks the whole log, and fails when something in it is not what it was.
func (e *Env) RecordsVerify(ctx context.Context) error {
	return e.works(func(client *workapi.Client) error {
		begin := time.Now()
		v, err := client.Verify(ctx)
		if err != nil {
			return err
		}
		if e.JSON {
			err = e.printJSON(v)
		} else if v.OK {
			_, err = fmt.Fprintf(e.Stdout, "%d records are what they were: ids, chain, signatures, clocks (%s)\n", v.Records, time.Since(begin).Round(time.Millisecond))
		} else if v.First != nil {
			_, err = fmt.Fprintf(e.Stdout, "record %d (%s) is not what it was: %s\n", v.First.Sequence, or(safe(v.First.ID), "missing"), safe(v.First.Reason))
		}
		if err == nil && !v.OK {
			return StatusError(1)
		}
		return err
	})
}
