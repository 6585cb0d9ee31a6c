package loop

// Thresholds of the guardrail: identical failures of one call.
const (
	BlockThreshold = 3 // from the third failure on, the call is no longer run
	HaltThreshold  = 5 // the fifth ends the run
	maxRailed      = 4096
)

// A guardrail counts failures of identical calls. It is apart from the observations: they advise, it acts.
type guardrail struct {
	failures map[string]*failures // by tool and arguments
}

// failures are those of one call, all of one shape.
type failures struct {
	shape string
	n     int
}

// blocks reports whether a call has failed so often that it must not be run again.
func (g *guardrail) blocks(key string) bool {
	f := g.failures[key]
	return f != nil && f.n >= BlockThreshold
}

// count takes the result of a call and returns how many failures of its shape the call has had, this one included; 0 if
// it did not fail.
func (g *guardrail) count(key string, result Result) int {
	if result.Status == StatusOK {
		delete(g.failures, key)
		return 0
	}
	if g.failures == nil || len(g.failures) >= maxRailed {
		g.failures = map[string]*failures{}
	}
	f, shape := g.failures[key], result.Status+"\x00"+result.Code
	switch {
	case f == nil, result.Code != codeGuardrail && f.shape != shape: // the guardrail's own answer keeps the shape it stands for
		g.failures[key] = &failures{shape: shape, n: 1}
		return 1
	default:
		f.n++
		return f.n
	}
}
