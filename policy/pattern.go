package policy

import (
	"context"
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

const (
	maxPatterns     = 256      // compiled patterns that an Evaluator keeps
	maxPatternBytes = 4096     // of the text of a pattern
	maxPatternSize  = 1000     // instructions of a compiled pattern
	matchBudget     = 32 << 20 // instructions times bytes that the matches of one Decide or Fires may take together
)

// A pattern is a compiled regular expression and the size of its program. Matching takes time in proportion to that size
// times the length of the text, and never more (https://github.com/google/re2/wiki/Syntax, which Go follows).
type pattern struct {
	expression *regexp.Regexp
	size       int
}

// matcher returns the function "matches" of one evaluation. The work of all its calls comes out of one budget, because each
// call alone runs to its end once it has begun.
func (e *Evaluator) matcher(ctx context.Context) cel.LateBoundFunction {
	left := matchBudget
	return func(_ string, args ...ref.Val) ref.Val {
		text, expression := string(args[0].(types.String)), string(args[1].(types.String)) // the declaration guards the types
		compiled, err := e.pattern(expression)
		if err != nil {
			return types.WrapErr(err)
		}
		if work := compiled.size * (len(text) + 1); ctx.Err() != nil || work > left {
			return types.WrapErr(errBounds)
		} else {
			left -= work
		}
		return types.Bool(compiled.expression.MatchString(text))
	}
}

// pattern compiles a regular expression, or finds it compiled.
func (e *Evaluator) pattern(expression string) (pattern, error) {
	if found, ok := e.patterns.get(expression); ok {
		return found, nil
	}
	made, err := compilePattern(expression)
	if err == nil {
		e.patterns.put(expression, made)
	}
	return made, err
}

// compilePattern compiles a regular expression of a bounded size. Its error has errBounds in its chain where that is why.
func compilePattern(expression string) (pattern, error) {
	if len(expression) > maxPatternBytes {
		return pattern{}, fmt.Errorf("the pattern has %d bytes, at most %d are allowed: %w", len(expression), maxPatternBytes, errBounds)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return pattern{}, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return pattern{}, err
	}
	if size := len(program.Inst); size > maxPatternSize {
		return pattern{}, fmt.Errorf("the pattern has %d instructions, at most %d are allowed: %w", size, maxPatternSize, errBounds)
	}
	compiled, err := regexp.Compile(expression)
	return pattern{expression: compiled, size: len(program.Inst)}, err
}

// patternLiterals checks the patterns that an expression spells out, so that a bad one is refused when it is written.
type patternLiterals struct{}

// Name returns the name of the validator.
func (patternLiterals) Name() string { return "policy.validator.patterns" }

// Validate reports bad patterns in a.
func (patternLiterals) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *ast.AST, issues *cel.Issues) {
	for _, call := range ast.MatchDescendants(ast.NavigateAST(a), ast.FunctionMatcher(overloads.Matches)) {
		args := call.AsCall().Args()
		if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
			continue
		}
		literal := args[len(args)-1]
		if expression, isText := literal.AsLiteral().(types.String); isText {
			if _, err := compilePattern(string(expression)); err != nil {
				issues.ReportErrorAtID(literal.ID(), "bad pattern: %v", err)
			}
		}
	}
}
