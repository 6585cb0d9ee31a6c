package inference

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"playground/fault"
)

// A Broker puts prices and ceilings around a provider. It is safe for concurrent use.
type Broker struct {
	provider Provider
	model    string
	prices   map[string]Price
}

// NewBroker returns a broker that asks p, for model where a request names none. Prices that are not Valid count as unknown.
func NewBroker(p Provider, model string, prices map[string]Price) *Broker {
	return &Broker{provider: p, model: model, prices: copied(prices)}
}

// Model returns the model of a request that names none.
func (b *Broker) Model() string { return b.model }

// Price returns the price of model, "" being the broker's. A model named with the date of its release has the price of the
// model without it, where it has none of its own.
func (b *Broker) Price(model string) (price Price, known bool) {
	return priceOf(b.prices, cmp.Or(model, b.model))
}

// The kinds of a budget.
const (
	BudgetUSD    = "usd"
	BudgetTokens = "tokens"
)

// The refusals of an account. None of them has reached the provider.
var (
	ErrBudget  = errors.New("the budget of the run is exhausted")  // in the chain of each *BudgetError
	ErrNoPrice = errors.New("the price of the model is not known") // and there is a ceiling in dollars
	ErrClosed  = errors.New("the account of the run is closed")    // Close was called
)

// A BudgetError refuses a call that what is left does not pay for.
type BudgetError struct {
	Kind  string // BudgetUSD or BudgetTokens
	Spent Usage
}

// Error says which budget is exhausted.
func (e *BudgetError) Error() string { return "the " + e.Kind + " budget of the run is exhausted" }

// Is reports whether target is ErrBudget.
func (e *BudgetError) Is(target error) bool { return target == ErrBudget }

// Usage is what an account has spent.
type Usage struct {
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	Calls        int     `json:"calls"` // that reached the provider
}

// An Account is the budget of one run. It is safe for concurrent use.
type Account struct {
	broker  *Broker
	ceiling *int64 // billionths of a dollar; nil is none
	tokens  int64  // 0 is none

	mu       sync.Mutex // guards what follows
	closed   bool
	spent    claim
	reserved claim // for calls that are under way
	calls    int
	changed  chan struct{} // closed when a reservation was settled or the account was closed
}

// A claim is a sum of money and tokens.
type claim struct{ nanos, input, output int64 }

func (c claim) plus(d claim) claim {
	return claim{sum(c.nanos, d.nanos), sum(c.input, d.input), sum(c.output, d.output)}
}

func (c claim) minus(d claim) claim {
	return claim{c.nanos - d.nanos, c.input - d.input, c.output - d.output}
}

func (c claim) tokens() int64 { return sum(c.input, c.output) }

// Open opens an account. A nil ceiling is none; a ceiling that is not positive refuses every call. A tokenBudget bounds
// input and output tokens together; 0 is none.
func (b *Broker) Open(ceilingUSD *float64, tokenBudget int64) *Account {
	a := &Account{broker: b, tokens: max(tokenBudget, 0), changed: make(chan struct{})}
	if ceilingUSD != nil {
		a.ceiling = new(nanos(*ceilingUSD))
	}
	return a
}

// Complete asks the provider and enters what it took. Before the call it reserves the worst case: the tokens of the
// request by an estimate that is rather too high, and MaxTokens of answer. Where less than MaxTokens is paid for, the answer may
// have as many tokens as are; where not even a short answer is, the call is refused with a *BudgetError. If that is only
// because of other calls of the account, it waits for them.
//
// A call that failed after the service had begun to answer is entered as if all of the reservation had been used, because
// the service may bill it.
func (a *Account) Complete(ctx context.Context, r Request, onText func(string)) (Response, error) {
	r.Model = cmp.Or(r.Model, a.broker.model)
	if r.MaxTokens < 1 || r.MaxTokens > maxTokens {
		return Response{}, NewError(InvalidRequest, "max_tokens is %d, not 1 to %d", r.MaxTokens, maxTokens)
	}
	price, known := a.broker.Price(r.Model)
	if !known && a.ceiling != nil {
		return Response{}, fault.Wrap(fault.Invalid, ErrNoPrice, "cannot ask model %q under a ceiling in dollars", r.Model).
			WithHint("set the price of the model in the configuration, or ask one that has a price")
	}
	input := Estimate(r)
	granted, held, err := a.reserve(ctx, price, input, int64(r.MaxTokens))
	if err != nil {
		return Response{}, err
	}
	r.MaxTokens = int(granted)
	used := held // what is entered if the provider panics
	defer func() { a.settle(held, used) }()
	response, err := a.broker.provider.Complete(ctx, r, onText)
	used = usedBy(response, err, held)
	used.nanos = price.cost(used.input, used.output)
	response.InputTokens, response.OutputTokens, response.CostUSD = used.input, used.output, dollars(used.nanos)
	return response, err
}

// usedBy is what a call took of tokens, or may have taken.
func usedBy(response Response, err error, held claim) claim {
	used := claim{input: counted(response.InputTokens), output: counted(response.OutputTokens)}
	if err == nil {
		return used
	}
	failed, typed := errors.AsType[*Error](err)
	switch {
	case !typed || failed.Started:
		return claim{input: cmp.Or(used.input, held.input), output: max(used.output, held.output)}
	case failed.Failure == Cancelled: // the request may be on its way
		return claim{input: cmp.Or(used.input, held.input), output: used.output}
	}
	return used
}

// shortReply is the least answer, in tokens, that a call is made for.
const shortReply = 256

// reserve sets aside what a call may take, and returns how many tokens its answer may have.
func (a *Account) reserve(ctx context.Context, price Price, input, wanted int64) (granted int64, held claim, err error) {
	for {
		a.mu.Lock()
		if a.closed {
			a.mu.Unlock()
			return 0, claim{}, fault.Wrap(fault.Denied, ErrClosed, "cannot ask the model")
		}
		granted, short := a.affordable(price, input, wanted, a.reserved)
		if short == "" {
			held = claim{price.cost(input, granted), input, granted}
			a.reserved = a.reserved.plus(held)
			a.calls++
			a.mu.Unlock()
			return granted, held, nil
		}
		_, alone := a.affordable(price, input, wanted, claim{})
		spent, changed := a.usageLocked(), a.changed
		a.mu.Unlock()
		if alone != "" {
			return 0, claim{}, &BudgetError{Kind: alone, Spent: spent}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, claim{}, EndedBy(ctx, false)
		}
	}
}

// affordable is how many of the wanted tokens are paid for beside others, and which budget is too small for that. The
// caller holds mu.
func (a *Account) affordable(price Price, input, wanted int64, others claim) (granted int64, short string) {
	least := min(wanted, shortReply)
	granted = wanted
	taken := a.spent.plus(others)
	if a.ceiling != nil {
		left := *a.ceiling - taken.nanos
		granted = min(granted, price.affords(left-price.cost(input, 0)))
		if left <= 0 || granted < least || price.cost(input, 0) > left {
			return 0, BudgetUSD
		}
	}
	if a.tokens > 0 {
		granted = min(granted, a.tokens-taken.tokens()-input)
		if granted < least {
			return 0, BudgetTokens
		}
	}
	return granted, ""
}

// settle replaces a reservation by what was used.
func (a *Account) settle(held, used claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved = a.reserved.minus(held)
	a.spent = a.spent.plus(used)
	a.wakeLocked()
}

// wakeLocked lets those that wait in reserve look again.
func (a *Account) wakeLocked() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// Spent returns what was spent. Calls under way are counted in Calls alone.
func (a *Account) Spent() Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.usageLocked()
}

func (a *Account) usageLocked() Usage {
	return Usage{InputTokens: a.spent.input, OutputTokens: a.spent.output, CostUSD: dollars(a.spent.nanos), Calls: a.calls}
}

// RemainingUSD returns what is left under the ceiling, at least 0, or nil without a ceiling.
func (a *Account) RemainingUSD() *float64 {
	if a.ceiling == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return new(dollars(max(*a.ceiling-a.spent.nanos, 0)))
}

// Close ends the account: every Complete after it is refused with ErrClosed. One that is under way ends with its context,
// and is still entered.
func (a *Account) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.wakeLocked()
}
