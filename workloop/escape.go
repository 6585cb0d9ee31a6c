package workloop

import (
	"encoding/json"
	"time"

	"playground/inference"
	"playground/workloop/tier"
)

// EscapePrincipal is for whom the runs of the escape suite are. It is neither the operator nor a tenant, and no request can name
// it, so that nobody's runs read what they leave.
const EscapePrincipal = "did:sync:system:escape"

// Bounds of a run of the escape suite.
const (
	maxEscape  = 4096 // records that it writes: one for each attempt
	escapeSecs = 300
)

// An Escape makes a run one of the escape suite: a sandboxed run like everybody's, but for what its worker does in it. It cannot
// be part of a request.
type Escape struct {
	// Plan makes what the worker is told. ended is a credential of the run that holds no longer, to be tried.
	Plan func(ended string) (json.RawMessage, error)
	// CPU and Memory, in bytes, are narrower limits than any run's; 0 = none.
	CPU    time.Duration
	Memory int64
}

// worker asks for the worker of a run, which may be none of the suite.
func (p *plan) worker(thread string) WorkerRequest {
	r := WorkerRequest{Run: thread, WallClock: p.wallClock}
	if p.escape != nil {
		r.CPU, r.Memory = p.escape.CPU, p.escape.Memory
	}
	return r
}

// confine makes the plan one of a sandboxed run of a class that has nothing, whatever the configuration says of transports and
// ceilings: what is tried is the worker. No model is asked, so nothing is spent, and the day's caps would only end the trying.
func (p *plan) confine() {
	p.transport = tier.Sandboxed
	p.limits = tier.Builtin(tier.Trial)
	p.limits.WallClockSecs, p.limits.Concurrency, p.limits.DailyLoopCap, p.limits.DailyCostCapUSD = escapeSecs, tier.None, tier.None, tier.None
	p.model = "none"
}

// brokerOf returns whom a run asks. One of the escape suite gets a broker that knows no price, which refuses all that is under a
// ceiling: what gets out of a worker must not find a model that is paid for.
func (e *Engine) brokerOf(p *plan) *inference.Broker {
	if p.escape != nil {
		return inference.NewBroker(inference.Echo{}, p.model, nil)
	}
	return e.o.Broker
}
