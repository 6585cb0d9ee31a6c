package inference

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"playground/fault"
)

// A stub answers every call like its function.
type stub func(ctx context.Context, r Request) (Response, error)

func (s stub) Complete(ctx context.Context, r Request, _ func(string)) (Response, error) {
	return s(ctx, r)
}

func took(input, output int64) stub {
	return func(context.Context, Request) (Response, error) {
		return Response{InputTokens: input, OutputTokens: output}, nil
	}
}

func hello(maxTokens int) Request {
	return Request{MaxTokens: maxTokens, Messages: []Message{{Role: User, Content: []Block{{Type: Text, Text: "hello"}}}}}
}

var priced = map[string]Price{"m": {3, 15}, "free": {}, "bad": {-1, 2}, "nan": {math.NaN(), 0}}

func TestMoney(t *testing.T) {
	for _, c := range []struct {
		price         Price
		input, output int64
		want          int64
	}{
		{Price{3, 15}, 1, 0, 3000},
		{Price{3, 15}, 1000, 100, 4_500_000},
		{Price{0.15, 0.6}, 1, 1, 750},
		{Price{0.0375, 0}, 1, 0, 38}, // 37.5 is rounded up
		{Price{1e5, 1e5}, maxTokens, maxTokens, 2_000_000_000_000_000},
		{Price{1e5, 1e5}, math.MaxInt64, math.MinInt64, 1_000_000_000_000_000},
		{Price{}, 1e6, 1e6, 0},
	} {
		if got := c.price.cost(c.input, c.output); got != c.want {
			t.Errorf("%v for %d and %d tokens: %d, want %d", c.price, c.input, c.output, got, c.want)
		}
	}
	for dollars, want := range map[float64]int64{0.29: 290_000_000, 1: 1e9, 0: 0, -1: 0, math.Inf(1): math.MaxInt64, math.Inf(-1): 0, 1e-12: 0} {
		if got := nanos(dollars); got != want {
			t.Errorf("%v dollars: %d, want %d", dollars, got, want)
		}
	}
	if nanos(math.NaN()) != 0 {
		t.Error("NaN dollars are something")
	}
}

// A thousand small calls add up to the cent.
func TestExactSum(t *testing.T) {
	a := NewBroker(took(7, 3), "m", priced).Open(nil, 0)
	for range 1000 {
		if _, err := a.Complete(t.Context(), hello(10), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := a.Spent(), (Usage{7000, 3000, 0.066, 1000}); got != want {
		t.Errorf("spent %+v, want %+v", got, want)
	}
	if a.RemainingUSD() != nil {
		t.Error("something remains of no ceiling")
	}
}

func TestPriceOf(t *testing.T) {
	b := NewBroker(took(0, 0), "m", priced)
	for model, known := range map[string]bool{"": true, "m": true, "m-20251001": true, "m-2025-10-01": true, "m-latest": true, "m-2": false, "x": false, "bad": false, "nan": false, "free": true} {
		if _, got := b.Price(model); got != known {
			t.Errorf("price of %q is known: %v", model, got)
		}
	}
	for model, price := range Prices() {
		if !price.Valid() {
			t.Errorf("price of %s: %v", model, price)
		}
	}
}

func TestRefusals(t *testing.T) {
	none := stub(func(context.Context, Request) (Response, error) {
		t.Error("the provider was asked")
		return Response{}, nil
	})
	b := NewBroker(none, "m", priced)
	for name, c := range map[string]struct {
		account *Account
		model   string
		want    error
		kind    string
	}{
		"no dollar":             {b.Open(new(0.0), 0), "m", ErrBudget, BudgetUSD},
		"no dollar, free model": {b.Open(new(0.0), 0), "free", ErrBudget, BudgetUSD},
		"negative":              {b.Open(new(-1.0), 0), "m", ErrBudget, BudgetUSD},
		"not a number":          {b.Open(new(math.NaN()), 0), "m", ErrBudget, BudgetUSD},
		"too little":            {b.Open(new(0.000001), 0), "m", ErrBudget, BudgetUSD},
		"few tokens":            {b.Open(nil, 50), "m", ErrBudget, BudgetTokens},
		"unknown price":         {b.Open(new(5.0), 0), "x", ErrNoPrice, ""},
		"bad price":             {b.Open(new(5.0), 0), "bad", ErrNoPrice, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hello(100)
			r.Model = c.model
			_, err := c.account.Complete(t.Context(), r, nil)
			if !errors.Is(err, c.want) {
				t.Fatalf("error is %v, want %v", err, c.want)
			}
			if budget, ok := errors.AsType[*BudgetError](err); ok && budget.Kind != c.kind {
				t.Errorf("kind is %s, want %s", budget.Kind, c.kind)
			}
			if got := c.account.Spent(); got != (Usage{}) {
				t.Errorf("spent %+v", got)
			}
		})
	}
	for _, tokens := range []int{0, -1, maxTokens + 1} {
		if _, err := b.Open(nil, 0).Complete(t.Context(), hello(tokens), nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("max_tokens %d: %v", tokens, err)
		}
	}
	closed := b.Open(nil, 0)
	closed.Close()
	closed.Close()
	if _, err := closed.Complete(t.Context(), hello(1), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Where not all of the answer is paid for, the answer gets shorter.
func TestShorterAnswer(t *testing.T) {
	var asked int
	b := NewBroker(stub(func(_ context.Context, r Request) (Response, error) {
		asked = r.MaxTokens
		return Response{InputTokens: 10, OutputTokens: int64(r.MaxTokens)}, nil
	}), "m", priced)
	a := b.Open(new(0.01), 0) // pays for 666 tokens of answer
	if _, err := a.Complete(t.Context(), hello(4096), nil); err != nil {
		t.Fatal(err)
	}
	if asked < shortReply || asked > 666 {
		t.Errorf("asked for %d tokens", asked)
	}
	if _, err := a.Complete(t.Context(), hello(4096), nil); !errors.Is(err, ErrBudget) {
		t.Errorf("second call: %v", err)
	}
	if spent := a.Spent(); spent.CostUSD > 0.01 || *a.RemainingUSD() < 0 {
		t.Errorf("spent %+v", spent)
	}
}

// What a failed call is entered as.
func TestFailedCalls(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		part Response
		want Usage
	}{
		"refused":              {NewError(RateLimited, "no"), Response{}, Usage{Calls: 1}},
		"broken":               {&Error{Failure: Network, Started: true, fault: fault.New(fault.Unavailable, "cut")}, Response{InputTokens: 20}, Usage{20, 100, 0.00156, 1}},
		"broken, no count":     {&Error{Failure: Network, Started: true, fault: fault.New(fault.Unavailable, "cut")}, Response{}, Usage{67, 100, 0.001701, 1}},
		"cancelled on its way": {NewError(Cancelled, "no"), Response{}, Usage{67, 0, 0.000201, 1}},
		"unknown":              {errors.New("boom"), Response{}, Usage{67, 100, 0.001701, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewBroker(stub(func(context.Context, Request) (Response, error) { return c.part, c.err }), "m", priced).Open(new(1.0), 1000)
			if _, err := a.Complete(t.Context(), hello(100), nil); !errors.Is(err, c.err) {
				t.Errorf("error is %v", err)
			}
			if got := a.Spent(); got != c.want {
				t.Errorf("spent %+v, want %+v", got, c.want)
			}
		})
	}
}

// Numbers that a service made up do not turn into credit.
func TestInventedUsage(t *testing.T) {
	a := NewBroker(took(math.MinInt64, -5), "m", priced).Open(new(1.0), 0)
	response, err := a.Complete(t.Context(), hello(100), nil)
	if err != nil || response.InputTokens != 0 || response.CostUSD != 0 || *a.RemainingUSD() != 1 {
		t.Errorf("%+v, %v, remaining %v", response, err, *a.RemainingUSD())
	}
	a = NewBroker(took(math.MaxInt64, math.MaxInt64), "m", priced).Open(new(1.0), 0)
	if _, err := a.Complete(t.Context(), hello(100), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Complete(t.Context(), hello(100), nil); !errors.Is(err, ErrBudget) || *a.RemainingUSD() != 0 {
		t.Errorf("after an absurd bill: %v, remaining %v", err, *a.RemainingUSD())
	}
}

// Calls at once wait for each other where together they could overspend; none is refused for it.
func TestWaitsForOthers(t *testing.T) {
	var under, most atomic.Int64
	b := NewBroker(stub(func(context.Context, Request) (Response, error) {
		now := under.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		defer under.Add(-1)
		return Response{InputTokens: 1, OutputTokens: 1}, nil
	}), "m", priced)
	a := b.Open(new(0.005), 0) // pays for one reservation of 256 tokens, not for two
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := a.Complete(t.Context(), hello(256), nil); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if most.Load() != 1 {
		t.Errorf("%d calls at once", most.Load())
	}
}

// Whoever waits for other calls leaves with his context, and when the account is closed.
func TestWaitEnds(t *testing.T) {
	entered, release := make(chan bool), make(chan bool)
	b := NewBroker(stub(func(context.Context, Request) (Response, error) {
		entered <- true
		<-release
		return Response{}, nil
	}), "m", priced)
	a := b.Open(new(0.005), 0)
	var group sync.WaitGroup
	group.Go(func() { _, _ = a.Complete(context.Background(), hello(256), nil) })
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	group.Go(func() { _, err := a.Complete(ctx, hello(256), nil); results <- err })
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
	group.Go(func() { _, err := a.Complete(t.Context(), hello(256), nil); results <- err })
	a.Close()
	if err := <-results; !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	close(release)
	group.Wait()
}

// A provider that panics leaves no reservation behind, and its call counts in full.
func TestPanic(t *testing.T) {
	a := NewBroker(stub(func(context.Context, Request) (Response, error) { panic("boom") }), "m", priced).Open(new(1.0), 0)
	func() {
		defer func() { _ = recover() }()
		_, _ = a.Complete(t.Context(), hello(100), nil)
	}()
	if a.reserved != (claim{}) || a.Spent().OutputTokens != 100 {
		t.Errorf("reserved %+v, spent %+v", a.reserved, a.Spent())
	}
}

// Whatever is asked at once of a service that keeps to max_tokens, no more than the budget is spent.
func TestNeverOverspends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ceiling := rapid.Float64Range(0, 0.05).Draw(t, "ceiling")
		budget := rapid.Int64Range(0, 5000).Draw(t, "budget")
		price := Price{rapid.Float64Range(0, 30).Draw(t, "in"), rapid.Float64Range(0, 90).Draw(t, "out")}
		share := rapid.IntRange(0, 100).Draw(t, "share")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 4096), 1, 24).Draw(t, "sizes")
		b := NewBroker(stub(func(_ context.Context, r Request) (Response, error) {
			return Response{InputTokens: Estimate(r) * int64(share) / 100, OutputTokens: int64(r.MaxTokens * share / 100)}, nil
		}), "m", map[string]Price{"m": price})
		a := b.Open(&ceiling, budget)
		var group sync.WaitGroup
		for _, size := range sizes {
			group.Go(func() {
				if _, err := a.Complete(context.Background(), hello(size), nil); err != nil && !errors.Is(err, ErrBudget) {
					t.Errorf("%v", err)
				}
			})
		}
		group.Wait()
		spent := a.Spent()
		if spent.CostUSD > ceiling+1e-9 || budget > 0 && spent.InputTokens+spent.OutputTokens > budget {
			t.Errorf("spent %+v of %v dollars and %d tokens", spent, ceiling, budget)
		}
		if a.reserved != (claim{}) {
			t.Errorf("still reserved: %+v", a.reserved)
		}
	})
}
