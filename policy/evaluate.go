package policy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"playground/fault"
)

// deadline is how long one Decide or Fires may take. The cost limit is reached long before, unless the machine is overloaded.
const deadline = 2 * time.Second

// maxContent is how many runes of a result a hook sees.
const maxContent = 4096

// errBounds says that an evaluation was given up, which tells nothing of the answer.
var errBounds = errors.New("the expression did not finish within its bounds")

// An Evaluator compiles and runs expressions. It is safe for concurrent use.
type Evaluator struct {
	programs *lru[source, cel.Program]
	patterns *lru[string, pattern]

	hits, misses, failures, compiled atomic.Uint64
	compileNanos                     atomic.Int64
}

// A source is what a compiled expression is known by.
type source struct {
	context    Context
	expression string
}

// New returns an evaluator that keeps up to cacheSize compiled expressions, at least one.
func New(cacheSize int) *Evaluator {
	return &Evaluator{programs: newLRU[source, cel.Program](cacheSize), patterns: newLRU[string, pattern](maxPatterns)}
}

// Check reports why expr cannot be an expression of the context. The error is a fault.Invalid that begins with line:column
// where the place is known.
func (e *Evaluator) Check(expr string, in Context) error {
	_, err := e.program(expr, in)
	return err
}

// Stats returns the figures of the cache since New.
func (e *Evaluator) Stats() Stats {
	s := Stats{
		Hits: e.hits.Load(), Misses: e.misses.Load(), CompileErrors: e.failures.Load(),
		Size: e.programs.len(), Capacity: e.programs.capacity,
	}
	if asked := s.Hits + s.Misses; asked > 0 {
		s.HitRatePct = 100 * float64(s.Hits) / float64(asked)
	}
	if n := e.compiled.Load(); n > 0 {
		s.AvgCompileMicros = float64(e.compileNanos.Load()) / 1e3 / float64(n)
	}
	return s
}

// program returns expr ready to run, from the cache where it is there.
func (e *Evaluator) program(expr string, in Context) (cel.Program, error) {
	key := source{in, expr}
	if program, found := e.programs.get(key); found {
		e.hits.Add(1)
		return program, nil
	}
	e.misses.Add(1)
	start := time.Now()
	environment, ast, err := compile(expr, in)
	if err != nil {
		e.failures.Add(1)
		return nil, err
	}
	// Not cel.OptOptimize: it would put the unbounded pattern match back where the pattern is a constant.
	program, err := environment.Program(ast, cel.CostTracking(work{}), cel.CostLimit(costLimit), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		e.failures.Add(1)
		return nil, fault.New(fault.Invalid, "the expression does not compile: %s", printable(err.Error()))
	}
	e.compiled.Add(1)
	e.compileNanos.Add(int64(time.Since(start)))
	e.programs.put(key, program)
	return program, nil
}

// Decide asks the enabled rules in their order: descending priority, and at equal priority deny before allow, then by name.
// The first one that is true decides. The namespace of a rule is for its reader; an expression that means only one asks
// current_namespace().
func (e *Evaluator) Decide(rules []Rule, s Subject) Decision {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	input := e.subject(ctx, s)
	var skipped []string
	for _, rule := range inOrder(rules) {
		holds, err := e.evaluate(ctx, rule.Expression, Permission, input)
		limited := errors.Is(err, errBounds)
		switch {
		case holds, limited && rule.Action != Allow:
			return Decision{Action: rule.effect(), Rule: rule.Name, Version: rule.Record, Skipped: skipped, Limited: limited}
		case err != nil:
			skipped = append(skipped, rule.Name)
		}
	}
	return Decision{Skipped: skipped}
}

// effect is what a rule that is true says. Only "allow" allows.
func (r *Rule) effect() Action {
	if r.Action == Allow {
		return Allow
	}
	return Deny
}

// inOrder returns the enabled rules in the order that they are asked in.
func inOrder(rules []Rule) []*Rule {
	ordered := make([]*Rule, 0, len(rules))
	for i := range rules {
		if rules[i].Enabled {
			ordered = append(ordered, &rules[i])
		}
	}
	slices.SortStableFunc(ordered, func(a, b *Rule) int {
		return cmp.Or(
			cmp.Compare(b.Priority, a.Priority),
			-strings.Compare(string(a.effect()), string(b.effect())), // "deny" before "allow"
			strings.Compare(a.Name, b.Name),
		)
	})
	return ordered
}

// Fires reports whether h has something to say of call, and its text. The error says why that is not known; the hook is
// then silent.
func (e *Evaluator) Fires(h Hook, call HookCall) (text string, fires bool, err error) {
	if !h.Enabled {
		return "", false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	args := call.Args
	if args == nil {
		args = map[string]any{}
	}
	input, err := cel.FunctionVars(map[string]any{
		"tool": call.Tool, "args": args, "status": call.Status, "content": firstRunes(call.Content, maxContent),
	}, map[string]cel.LateBoundFunction{"matches": e.matcher(ctx)})
	if err != nil {
		return "", false, fault.Wrap(fault.Internal, err, "cannot evaluate hook %q", h.Name)
	}
	holds, err := e.evaluate(ctx, h.When, Observer, input)
	if err != nil {
		return "", false, fault.Wrap(fault.Invalid, err, "cannot evaluate hook %q", h.Name)
	}
	if !holds {
		return "", false, nil
	}
	return strings.NewReplacer("${tool}", call.Tool, "${status}", call.Status).Replace(h.Text), true, nil
}

// firstRunes returns the first n runes of text, with bytes that are no UTF-8 replaced: CEL strings are Unicode.
func firstRunes(text string, n int) string {
	count := 0
	for i := range text {
		if count == n {
			text = text[:i]
			break
		}
		count++
	}
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// evaluate runs one expression. Its error is errBounds where the evaluation was given up.
func (e *Evaluator) evaluate(ctx context.Context, expr string, in Context, input cel.Activation) (holds bool, err error) {
	program, err := e.program(expr, in)
	if err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, errBounds
	}
	value, _, err := program.ContextEval(ctx, input)
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled), errors.Is(err, interpreter.InterruptError{}), errors.Is(err, errBounds):
		return false, errBounds
	case err != nil:
		return false, errors.New(printable(err.Error()))
	}
	answer, isBool := value.(types.Bool)
	if !isBool {
		return false, fault.New(fault.Invalid, "the expression is of type %s, not bool", value.Type().TypeName())
	}
	return bool(answer), nil
}

// subject is what the names of the permission context stand for.
func (e *Evaluator) subject(ctx context.Context, s Subject) cel.Activation {
	input, err := cel.FunctionVars(map[string]any{
		"record": orEmpty(s.Record), "resource": s.Resource, "system": orEmpty(s.System),
	}, map[string]cel.LateBoundFunction{
		"matches":                      e.matcher(ctx),
		"current_actor":                answer(types.String(s.Actor)),
		"current_namespace":            answer(types.String(s.Namespace)),
		"trust":                        s.trust,
		"trust_count":                  answer(types.Int(s.TrustCount)),
		"task":                         s.task,
		"now":                          answer(types.Timestamp{Time: s.Now.UTC()}),
		"fleet_frozen_namespaces":      answer(types.NewStringList(types.DefaultTypeAdapter, nil)),
		"fleet_hard_frozen_past_grace": answer(types.False),
		"fleet_emergency_active":       answer(types.False),
	})
	if err != nil { // only for input that is no map or has functions already
		panic("internal error: the subject of a rule has no names: " + err.Error())
	}
	return input
}

// answer is a function without arguments.
func answer(value ref.Val) cel.LateBoundFunction {
	return func(string, ...ref.Val) ref.Val { return value }
}

func (s *Subject) trust(_ string, args ...ref.Val) ref.Val {
	if s.Trust == nil {
		return types.Double(0)
	}
	actor, domain := args[0].(types.String), args[1].(types.String) // the declaration guards the types
	return types.Double(s.Trust(string(actor), string(domain)))
}

func (s *Subject) task(_ string, args ...ref.Val) ref.Val {
	var found map[string]any
	if s.Task != nil {
		found = s.Task(string(args[0].(types.String)))
	}
	return types.DefaultTypeAdapter.NativeToValue(orEmpty(found))
}

// orEmpty returns m, or an empty map for nil: a rule then finds that a field is missing.
func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}
