package bench

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"

	"playground/record"
)

// The ways to put a note on the disk.
const (
	waySync   = "fsync"
	wayAppend = "append"
)

// measureAppend compares an append to a record log, which is on the disk when it returns, with the least that any program can
// do for that: write(2) and fsync(2).
func measureAppend(ctx context.Context, dir string, o Options) (rows []WorkRow, err error) {
	plain, err := os.OpenFile(filepath.Join(dir, "plain"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file: %w", err)
	}
	defer plain.Close()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	log, err := record.Open(filepath.Join(dir, "append.db"), record.Options{Key: key})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ways := []way{
		{name: waySync, words: "write and fsync, a plain file (floor)", call: func(context.Context, int) error {
			if _, err := plain.WriteString(noteText + "\n"); err != nil {
				return err
			}
			return plain.Sync()
		}},
		{name: wayAppend, words: "a record: signed, chained, on disk", call: func(ctx context.Context, caller int) error {
			_, err := log.Append(ctx, record.Draft{Thread: record.NewThread(fmt.Sprint(caller)), Actor: record.EngineDID, Act: record.ActKnow,
				Body: map[string]string{"kind": "core.work.note.v1", "text": noteText}})
			return err
		}},
	}
	var cells []*cell
	for _, load := range loads {
		for _, w := range ways {
			cells = append(cells, &cell{way: w, load: load})
		}
	}
	if err := takeTurns(ctx, cells, o, "records", o.Time/8); err != nil {
		return nil, err
	}
	return workRows(cells, waySync), nil
}

// noteText is a note of an ordinary length.
const noteText = "a note of an ordinary length, as a run writes it"

// workRows are the rows of cells, compared with one of the ways under the same load.
func workRows(cells []*cell, base string) (rows []WorkRow) {
	for _, c := range cells {
		rows = append(rows, WorkRow{Row: c.row(), ToBase: ratio(c, find(cells, base, c.load))})
	}
	return rows
}
