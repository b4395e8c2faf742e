package celhealth

import (
	"fmt"
	"math"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/overloads"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/health"
)

// optionalsVersion fixes the version of the library, so that a rule keeps compiling with the same
// meaning.
const optionalsVersion = 4

const (
	// nodesMost is the greatest number of nodes in the tree of an expression, after the expansion of
	// macros.
	nodesMost = 4096
	// depthMost is the greatest nesting of an expression: the time and the memory of the checker
	// grow with its cube.
	depthMost = 32
	// problemsMost is the maximum number of problems of an expression in an error, and problemMost
	// is the maximum length of each in bytes.
	problemsMost = 4
	problemMost  = 256
	// regexMost is the greatest number of instructions of a pattern: a match takes at most that many
	// steps for each character.
	regexMost = 250
)

// newEnv returns the environment for all expressions.
func newEnv() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("self", cel.MapType(cel.StringType, cel.DynType)),
		cel.OptionalTypes(cel.OptionalTypesVersion(optionalsVersion)),
		stringFunctions(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(health.MaxExpression),
		cel.ParserRecursionLimit(depthMost),
		cel.ExpressionNodeLimit(nodesMost),
		cel.RegexProgramSizeLimit(regexMost),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	)
}

// program is a compiled rule. Its expressions may be nil, except ready.
type program struct {
	failed, ready, message *expression
	anyGeneration          bool
}

// expression is a part of a rule.
type expression struct {
	field   string
	ast     *cel.Ast
	program cel.Program
	limit   uint64
}

// compile returns the program of a rule, or the problems of its expressions. health.Validate
// checks empty and overlong ones.
func (c compiler) compile(r *health.Rule, at *field.Path) (*program, field.ErrorList) {
	var errs field.ErrorList
	p := &program{anyGeneration: r.AnyGeneration}
	for _, e := range r.Expressions() {
		if len(e.Text) > health.MaxExpression {
			continue
		}
		result, out := cel.BoolType, &p.ready
		switch e.Field {
		case "failed":
			out = &p.failed
		case "message":
			result, out = cel.StringType, &p.message
		}
		x, problems := c.expression(e, result)
		*out = x
		for _, problem := range problems {
			errs = append(errs, field.Invalid(at.Child(e.Field), beginning(e.Text), clip(problem, problemMost)))
		}
	}
	return p, errs
}

// beginning returns the part of an expression that an error quotes.
func beginning(text string) string {
	if len(text) <= problemMost {
		return text
	}
	return strings.ToValidUTF8(text[:problemMost], "") + "…"
}

// expression compiles an expression with a required result, or returns its problems, each with
// its line and column. If the type of the result is known only at run time, it is checked then.
func (c compiler) expression(e health.Expression, result *cel.Type) (*expression, []string) {
	ast, issues := c.env.Compile(e.Text)
	if issues.Err() != nil {
		var problems []string
		all := issues.Errors()
		for n, i := range all {
			if n == problemsMost {
				problems = append(problems, fmt.Sprintf("and %d more problems", len(all)-n))
				break
			}
			problems = append(problems, fmt.Sprintf("%d:%d: %s", i.Location.Line(), i.Location.Column()+1, i.Message))
		}
		return nil, problems
	}
	if t := ast.OutputType(); !t.IsExactType(result) && !t.IsExactType(cel.DynType) {
		return nil, []string{fmt.Sprintf("1:1: its type is %s, and must be %s", cel.FormatCELType(t), cel.FormatCELType(result))}
	}
	if problem := dynamicPattern(ast); problem != "" {
		return nil, []string{problem}
	}
	estimate, err := c.env.EstimateCost(ast, ofTypicalSize{})
	if err != nil {
		return nil, []string{"1:1: its cost cannot be estimated: " + err.Error()}
	}
	if estimate.Max > c.limit && estimate.Max < math.MaxUint64 { // for values of unknown size
		const dear = "1:1: it costs up to %d where lists have %d entries, and the limit is %d"
		return nil, []string{fmt.Sprintf(dear, estimate.Max, typicalEntries, c.limit)}
	}
	p, err := c.env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(1),
		cel.CostTracking(deepCost{c.limit}), cel.CostLimit(c.limit))
	if err != nil {
		return nil, []string{"1:1: " + err.Error()}
	}
	return &expression{e.Field, ast, p, c.limit}, nil
}

// dynamicPattern returns the place of a pattern that is not a literal, or "". Compiling a pattern
// from a member may take much memory, before its cost is known.
func dynamicPattern(a *cel.Ast) (problem string) {
	celast.PreOrderVisit(a.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		if pattern := args[len(args)-1]; pattern.Kind() != celast.LiteralKind {
			at := a.NativeRep().SourceInfo().GetStartLocation(pattern.ID())
			problem = fmt.Sprintf("%d:%d: the pattern of matches must be a literal", at.Line(), at.Column()+1)
		}
	}))
	return problem
}

// The sizes that an estimate assumes for the values of an object, because they have no schema.
const (
	typicalEntries = 100
	typicalString  = 1000
)

// ofTypicalSize estimates the cost of an expression for an object of usual size, so that three
// nested loops do not compile. The limit of an evaluation covers larger objects.
type ofTypicalSize struct{}

// EstimateSize returns the size of a value that is unknown from the expression.
func (ofTypicalSize) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	if n.Type().IsExactType(cel.StringType) {
		return &cost.SizeEstimate{Max: typicalString}
	}
	return &cost.SizeEstimate{Max: typicalEntries}
}

// EstimateCallCost leaves calls to CEL.
func (ofTypicalSize) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
