package record_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"playground/record"
)

func Example() {
	folder, err := os.MkdirTemp("", "record")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	l, err := record.Open(filepath.Join(folder, "records.db"), record.Options{})
	if err != nil {
		panic(err)
	}
	defer l.Close()

	ctx, thread := context.Background(), record.NewThread("example")
	goal, err := l.Append(ctx, record.Draft{Thread: thread, Actor: "did:sync:user:alice", Act: record.ActIntend, Body: map[string]any{"goal": "count to three"}})
	if err != nil {
		panic(err)
	}
	_, err = l.Append(ctx, record.Draft{Thread: thread, Actor: record.EngineDID, Act: record.ActKnow, Parents: []string{goal[0].ID}, Body: map[string]any{"fulfills": goal[0].ID, "count": 3}})
	if err != nil {
		panic(err)
	}
	page, err := l.Query(ctx, record.Query{Thread: thread, Filter: json.RawMessage(`{"body.count":{"$gte":3}}`)})
	if err != nil {
		panic(err)
	}
	state, err := l.Thread(ctx, thread)
	if err != nil {
		panic(err)
	}
	report, err := l.Verify(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(page.MatchedTotal, page.Data[0].Sequence, state.State, report.Records, report.First == nil)
	// Output: 1 2 closed 2 true
}
