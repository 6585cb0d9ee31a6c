package workloop

import (
	"context"
	"path/filepath"
	"testing"

	"playground/inference"
	"playground/policy"
	"playground/record"
	"playground/workloop/loop"
)

// Queries that workers make slow on purpose have an end, and hold up neither a start nor what the kernel has to read for it.
func TestQueriesOfRunsAreFew(t *testing.T) {
	log, err := record.Open(filepath.Join(t.TempDir(), "log.db"), record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e, err := New(t.Context(), Options{Log: log, Rules: policy.New(1), Operator: "did:sync:user:owner", Broker: inference.NewBroker(inference.Echo{}, "echo", inference.Prices())})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	for range cap(e.queries) { // as many slow ones as there may be
		e.queries <- struct{}{}
	}
	r := &run{e: e}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := r.query(gone, record.Query{}); err == nil {
		t.Error("a query more was carried out")
	}
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	if refusal, ok := tooSlow(late).(*loop.Refusal); !ok || refusal.Code != loop.CodeInvalidQuery {
		t.Errorf("a query that takes too long gives %v", tooSlow(late))
	}
	if _, err := e.Start(t.Context(), StartRequest{Goal: "x"}); err != nil {
		t.Errorf("a start is held up: %v", err)
	}
	<-e.queries
	if _, err := r.query(t.Context(), record.Query{}); err != nil || len(e.queries) != cap(e.queries)-1 {
		t.Errorf("%d queries go on after the last one: %v", len(e.queries), err)
	}
}
