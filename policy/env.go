package policy

import (
	"strings"
	"sync"
	"unicode"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"

	"playground/fault"
)

// The bounds of an expression. What is left after them is a loaded machine, which the deadline of an evaluation is for.
const (
	maxExpression  = 8 << 10 // bytes
	maxDepth       = 100     // nested calls, as the parser counts them
	maxNodes       = 20_000  // nodes after macros are expanded
	costLimit      = 500_000 // cost units of one evaluation: a unit is one operation, or the reading of a hundred bytes
	interruptEvery = 64      // turns of a comprehension between two looks at the clock
)

// environments are built once: they are immutable, and building one takes longer than compiling a rule.
var environments = sync.OnceValue(func() map[Context]*cel.Env {
	return map[Context]*cel.Env{
		Permission: mustEnv(permissionEnv()...),
		Observer: mustEnv(
			cel.Variable("tool", cel.StringType),
			cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
			cel.Variable("status", cel.StringType),
			cel.Variable("content", cel.StringType),
		),
	}
})

// permissionEnv declares what a permission rule may name. The functions are bound at each evaluation, because what they
// answer is the subject's.
func permissionEnv() []cel.EnvOption {
	object := cel.MapType(cel.StringType, cel.DynType)
	return []cel.EnvOption{
		cel.Variable("record", object),
		cel.Variable("resource", cel.StringType),
		cel.Variable("system", object),
		lateBound("current_actor", cel.StringType),
		lateBound("current_namespace", cel.StringType),
		lateBound("trust", cel.DoubleType, cel.StringType, cel.StringType),
		lateBound("trust_count", cel.IntType),
		lateBound("task", object, cel.StringType),
		lateBound("now", cel.TimestampType),
		// Fleets are not a thing of this product. The names exist so that a rule written for one compiles and finds nothing.
		lateBound("fleet_frozen_namespaces", cel.ListType(cel.StringType)),
		lateBound("fleet_hard_frozen_past_grace", cel.BoolType),
		lateBound("fleet_emergency_active", cel.BoolType),
	}
}

// lateBound declares a function of one overload that is given at the evaluation.
func lateBound(name string, result *cel.Type, args ...*cel.Type) cel.EnvOption {
	return cel.Function(name, cel.Overload("policy_"+name, args, result, cel.LateFunctionBinding()))
}

// mustEnv returns the standard environment with options added. The pattern match of the standard library has no bound on
// its work, so ours takes its place.
func mustEnv(options ...cel.EnvOption) *cel.Env {
	without := &env.LibrarySubset{ExcludeFunctions: []*env.Function{{Name: overloads.Matches}}}
	text := []*cel.Type{cel.StringType, cel.StringType}
	built, err := cel.NewCustomEnv(append([]cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(without)),
		cel.Function(overloads.Matches,
			cel.Overload("policy_matches", text, cel.BoolType, cel.LateFunctionBinding()),
			cel.MemberOverload("policy_string_matches", text, cel.BoolType, cel.LateFunctionBinding())),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), patternLiterals{}),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
	}, options...)...)
	if err != nil {
		panic("internal error: the environment of rules does not build: " + err.Error())
	}
	return built
}

// compile parses and checks expr. The error tells line and column, and shows the line with a caret under the place.
func compile(expr string, in Context) (*cel.Env, *cel.Ast, error) {
	environment, known := environments()[in]
	switch {
	case !known:
		return nil, nil, fault.New(fault.Invalid, "there is no expression context %q", string(in)).
			WithHint("the contexts are %q and %q", string(Permission), string(Observer))
	case strings.TrimSpace(expr) == "":
		return nil, nil, fault.New(fault.Invalid, "the expression is empty").WithHint(`write a condition, for example: resource == "tool:bash"`)
	case len(expr) > maxExpression:
		return nil, nil, fault.New(fault.Invalid, "the expression has %d bytes, at most %d are allowed", len(expr), maxExpression)
	}
	ast, issues := environment.Compile(expr)
	if issues.Err() != nil {
		return nil, nil, compileError(expr, issues)
	}
	if kind := ast.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return nil, nil, fault.New(fault.Invalid, "1:1: the expression is of type %s, not bool", kind).
			WithHint("compare the value with something, so that the answer is true or false")
	}
	return environment, ast, nil
}

// compileError tells the first error of issues. Those after it are often its consequences.
func compileError(expr string, issues *cel.Issues) error {
	all := issues.Errors()
	if len(all) == 0 {
		return fault.New(fault.Invalid, "the expression does not compile: %s", printable(issues.Err().Error()))
	}
	first := all[0]
	line, column := max(first.Location.Line(), 1), max(first.Location.Column(), 0)
	return fault.New(fault.Invalid, "%d:%d: %s%s", line, column+1, printable(first.Message), caret(expr, line, column))
}

// caret is a line of expr, shortened around column, and below it a caret under the column.
func caret(expr string, line, column int) string {
	const before, shown = 60, 120
	lines := strings.Split(expr, "\n")
	if line > len(lines) {
		return ""
	}
	text := []rune(lines[line-1])
	column = min(column, len(text))
	from := max(column-before, 0)
	text = text[from:min(from+shown, len(text))]
	return "\n  " + printable(string(text)) + "\n  " + strings.Repeat(" ", column-from) + "^"
}

// printable replaces what a terminal would not show as one column or would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, text)
}
