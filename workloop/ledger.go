package workloop

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"time"

	"playground/inference"
	"playground/record"
	"playground/workloop/tier"
)

const dayForm = "2006-01-02"

// tomorrow is what can be done about a daily cap.
const tomorrow = "the day ends at midnight UTC; another tier has other caps: a configuration record of topic actor_tier gives one"

// A ledger counts what each principal uses a day (UTC), and what its going runs may still use. The count is in the log, one
// record for each change, so that a restart forgets nothing that was paid for.
type ledger struct {
	log   *record.Log
	now   func() time.Time
	mu    sync.Mutex // guards books
	books map[string]*book
}

// A book is one principal's.
type book struct {
	mu       sync.Mutex // guards what follows, and orders the records
	usage    Usage
	loaded   bool
	active   int     // going runs
	starting int64   // loops that are admitted and not counted yet
	reserved float64 // what the ceilings of going runs leave them to spend
}

// usageBody is the body of a usage record: the day's totals so far.
type usageBody struct {
	Kind      string  `json:"kind"`
	Principal string  `json:"actor"`
	Day       string  `json:"day"`
	Loops     int64   `json:"loop_count"`
	Input     int64   `json:"input_tokens"`
	Output    int64   `json:"output_tokens"`
	CostUSD   float64 `json:"cost_usd"`
	Run       string  `json:"run,omitempty"`
}

func (l *ledger) today() string { return l.now().UTC().Format(dayForm) }

// of returns a principal's book.
func (l *ledger) of(principal string) *book {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[principal]
	if b == nil {
		b = &book{}
		l.books[principal] = b
	}
	return b
}

// load reads what a principal used on a day.
func (l *ledger) load(ctx context.Context, principal, day string) (Usage, error) {
	usage := Usage{Object: "usage", Principal: principal, Day: day}
	page, err := l.log.Query(ctx, record.Query{
		Thread: usageThread(principal, day),
		Filter: json.RawMessage(`{"actor":"` + record.EngineDID + `","body.kind":"` + KindUsage + `"}`),
		Sort:   record.Sort{{Field: "clock", Descending: true}},
		Limit:  1,
	})
	if err != nil || len(page.Data) == 0 {
		return usage, err
	}
	var body usageBody
	if err := page.Data[0].Decode(&body); err != nil {
		return usage, err
	}
	usage.LoopCount, usage.InputTokens, usage.OutputTokens, usage.CostUSD = body.Loops, body.Input, body.Output, body.CostUSD
	return usage, nil
}

func usageThread(principal, day string) string { return record.NewThread("usage", principal, day) }

// turnLocked brings a book to today.
func (l *ledger) turnLocked(ctx context.Context, b *book, principal string) error {
	day := l.today()
	if b.loaded && b.usage.Day == day {
		return nil
	}
	usage, err := l.load(ctx, principal, day)
	if err != nil {
		return err
	}
	b.usage, b.loaded = usage, true
	return nil
}

// draft is the record of a day's totals.
func draftUsage(u Usage, run string) record.Draft {
	return record.Draft{Thread: usageThread(u.Principal, u.Day), Actor: record.EngineDID, Act: record.ActKnow, Body: usageBody{
		Kind: KindUsage, Principal: u.Principal, Day: u.Day, Loops: u.LoopCount, Input: u.InputTokens, Output: u.OutputTokens,
		CostUSD: u.CostUSD, Run: run,
	}}
}

// A reservation is a place among a principal's going runs, with what the run may still spend. It belongs to one run.
type reservation struct {
	ledger    *ledger
	book      *book
	principal string
	dailyCap  float64
	left      float64
	fresh     bool // a new loop, not counted yet
	once      sync.Once
}

// check returns the refusal of one more run, or what is left of the day's cap, +Inf where there is none.
func (b *book) checkLocked(limits tier.Limits, fresh bool) (left float64, err error) {
	if limits.Concurrency != tier.None && b.active >= limits.Concurrency {
		return 0, hinted(refuse(CodeConcurrency, http.StatusTooManyRequests, "as many runs are going as the tier allows at once: %d", limits.Concurrency),
			"wait for one to end, or end one: playground runs stop THREAD")
	}
	if loops := b.usage.LoopCount + b.starting; fresh && limits.DailyLoopCap != tier.None && loops >= limits.DailyLoopCap {
		return 0, hinted(refuse(CodeDailyCount, http.StatusTooManyRequests, "%d runs were started today, the tier's limit is %d", loops, limits.DailyLoopCap), tomorrow)
	}
	if limits.DailyCostCapUSD == tier.None {
		return math.Inf(1), nil
	}
	left = limits.DailyCostCapUSD - b.usage.CostUSD - b.reserved
	if left <= 0 {
		return 0, hinted(refuse(CodeDailyCost, http.StatusTooManyRequests, "of today's cap of $%.2f, $%.4f is spent and $%.4f is set aside for going runs",
			limits.DailyCostCapUSD, b.usage.CostUSD, b.reserved), tomorrow)
	}
	return left, nil
}

// admit takes a place for a run of principal, and sets its ceiling aside. The ceiling comes back no higher than what is left of
// the day; nil stays nil.
func (l *ledger) admit(ctx context.Context, principal string, limits tier.Limits, ceiling *float64, fresh bool) (*reservation, *float64, error) {
	b := l.of(principal)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := l.turnLocked(ctx, b, principal); err != nil {
		return nil, nil, unwritten(err)
	}
	left, err := b.checkLocked(limits, fresh)
	if err != nil {
		return nil, nil, err
	}
	r := &reservation{ledger: l, book: b, principal: principal, dailyCap: limits.DailyCostCapUSD, fresh: fresh}
	if ceiling != nil {
		clamped := min(*ceiling, left)
		ceiling, r.left = &clamped, clamped
	}
	b.active++
	b.reserved += r.left
	if fresh {
		b.starting++
	}
	return r, ceiling, nil
}

// peek returns today's usage and the refusal that a start would get, if any.
func (l *ledger) peek(ctx context.Context, principal string, limits tier.Limits) (Usage, float64, error, error) {
	b := l.of(principal)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := l.turnLocked(ctx, b, principal); err != nil {
		return Usage{}, 0, nil, unwritten(err)
	}
	left, refusal := b.checkLocked(limits, true)
	return b.usage, left, refusal, nil
}

// start appends the drafts that open a run together with the count of it.
func (r *reservation) start(ctx context.Context, run string, drafts ...record.Draft) ([]record.Record, error) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	if err := r.ledger.turnLocked(ctx, r.book, r.principal); err != nil {
		return nil, err
	}
	usage := r.book.usage
	usage.LoopCount++
	records, err := r.ledger.log.Append(ctx, append(drafts, draftUsage(usage, run))...)
	if err != nil {
		return nil, err
	}
	r.book.usage = usage
	r.book.starting--
	r.fresh = false
	return records, nil
}

// spend counts what a model call took. The count goes on even where the record fails, which is an error.
func (r *reservation) spend(ctx context.Context, run string, took inference.Usage) error {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	set := min(r.left, took.CostUSD)
	r.left -= set
	r.book.reserved -= set
	if err := r.ledger.turnLocked(ctx, r.book, r.principal); err != nil {
		return err
	}
	u := &r.book.usage
	u.InputTokens += took.InputTokens
	u.OutputTokens += took.OutputTokens
	u.CostUSD += took.CostUSD
	_, err := r.ledger.log.Append(ctx, draftUsage(*u, run))
	return err
}

// exhausted reports whether the day's cap is spent.
func (r *reservation) exhausted() bool {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.dailyCap != tier.None && r.book.usage.Day == r.ledger.today() && r.book.usage.CostUSD >= r.dailyCap
}

// release gives the place and what was not spent back. It may be called more than once.
func (r *reservation) release() {
	r.once.Do(func() {
		r.book.mu.Lock()
		defer r.book.mu.Unlock()
		r.book.active--
		r.book.reserved = max(0, r.book.reserved-r.left)
		r.left = 0
		if r.fresh {
			r.book.starting--
		}
	})
}
