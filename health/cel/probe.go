package celhealth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/health"
)

// messageMost is the greatest length of a message in bytes.
const messageMost = 256

// textMost is the greatest length of a text that an expression reads, in bytes.
const textMost = 256 << 10

// probe returns the health of an object. Its error is the error of ctx.
func (p *program) probe(ctx context.Context, timeout time.Duration, obj *unstructured.Unstructured) (health.Status, error) {
	if obj.GetDeletionTimestamp() != nil {
		return health.Status{Message: "it is being deleted"}, nil
	}
	if !p.anyGeneration {
		fresh, outdated := health.Evidence(obj)
		if outdated != "" {
			return health.Status{Message: outdated}, nil
		}
		obj = fresh
	}
	if tooLong(obj.Object) {
		return health.Status{Message: fmt.Sprintf("it has a text of more than %d bytes, and the rule is not evaluated", textMost)}, nil
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h := p.health(limited, map[string]any{"self": obj.Object})
	if err := ctx.Err(); err != nil {
		return health.Status{}, err
	}
	h.Message = printable(h.Message)
	return h, nil
}

func (p *program) health(ctx context.Context, vars map[string]any) health.Status {
	if p.failed != nil {
		failed, err := p.failed.isTrue(ctx, vars)
		switch {
		case failed:
			return health.Status{Failed: true, Message: p.says(ctx, vars, "failed is true")}
		case err != nil && !isMissing(err):
			return health.Status{Message: err.Error()}
		}
	}
	ready, err := p.ready.isTrue(ctx, vars)
	switch {
	case err != nil:
		return health.Status{Message: err.Error()}
	case ready:
		return health.Status{Healthy: true}
	default:
		return health.Status{Message: p.says(ctx, vars, "ready is false")}
	}
}

// says returns the message of the rule, or reason if it has none.
func (p *program) says(ctx context.Context, vars map[string]any, reason string) string {
	if p.message == nil {
		return reason
	}
	v, err := p.message.eval(ctx, vars)
	if err != nil {
		return reason + "; " + err.Error()
	}
	s, ok := v.(types.String)
	if !ok {
		return reason + "; " + p.message.isNot("string", v)
	}
	return string(s)
}

// isTrue returns the value of an expression that must be a bool.
func (e *expression) isTrue(ctx context.Context, vars map[string]any) (bool, error) {
	v, err := e.eval(ctx, vars)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, errors.New(e.isNot("bool", v))
	}
	return bool(b), nil
}

// isNot reports that a value does not have the required type of the expression.
func (e *expression) isNot(want string, v ref.Val) string {
	return fmt.Sprintf("%s is not a %s, but a %s", e.field, want, v.Type().TypeName())
}

// missingError is the error of an expression that reads a missing field.
type missingError struct{ error }

func isMissing(err error) bool {
	_, ok := errors.AsType[missingError](err)
	return ok
}

// eval returns the value of an expression; its error begins with the name of the field and the
// position of the failure.
func (e *expression) eval(ctx context.Context, vars map[string]any) (ref.Val, error) {
	v, _, err := e.program.ContextEval(ctx, vars)
	if err == nil {
		return v, nil
	}
	if stopped, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && stopped.Cause == interpreter.CostLimitExceeded {
		return nil, fmt.Errorf("%s is stopped: it costs more than %d", e.field, e.limit)
	}
	if errors.Is(err, interpreter.InterruptError{}) {
		return nil, fmt.Errorf("%s is stopped: it takes too long", e.field)
	}
	where := ""
	if inside, ok := errors.AsType[*types.Err](err); ok {
		at := e.ast.NativeRep().SourceInfo().GetStartLocation(inside.NodeID())
		where = fmt.Sprintf(" at %d:%d", at.Line(), at.Column()+1)
	}
	out := fmt.Errorf("%s%s: %w", e.field, where, err)
	for _, missing := range []string{"no such key", "index out of bounds", "no such attribute", "optional.none() dereference"} {
		if strings.HasPrefix(err.Error(), missing) {
			return nil, missingError{out}
		}
	}
	return nil, out
}

// tooLong reports whether a value has a text of more than textMost bytes. A call such as matches
// or split reads a whole text before its time and its cost are known.
func tooLong(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) > textMost
	case []any:
		return slices.ContainsFunc(v, tooLong)
	case map[string]any:
		for _, e := range v {
			if tooLong(e) {
				return true
			}
		}
	}
	return false
}

// printable returns a text of at most messageMost bytes that is safe for a terminal.
func printable(s string) string { return clip(s, messageMost) }

// clip returns a text of at most so many bytes that is safe for a terminal.
func clip(s string, most int) string {
	s = strings.ToValidUTF8(s[:min(len(s), 4*most)], " ")
	if len(s) > most {
		end := most
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
