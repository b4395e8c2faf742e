package health

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Status is the health of an object. An object that is neither healthy nor failed may become
// healthy.
type Status struct {
	Healthy bool
	// Failed reports that waiting will not make the object healthy.
	Failed bool
	// Message is the problem, for people. The engine cuts it at 256 characters.
	Message string
}

// Prober reports whether an object is healthy. It must not change the object, may be called
// concurrently and honours ctx. An error means that the health is not known.
//
// A Prober that is a [RuleProber] evaluates the rules of placements too. An engine whose Prober is
// not refuses a placement that has rules.
type Prober interface {
	Probe(ctx context.Context, obj *unstructured.Unstructured) (Status, error)
}

// ProberFunc makes a function a [Prober].
type ProberFunc func(ctx context.Context, obj *unstructured.Unstructured) (Status, error)

// Probe calls f.
func (f ProberFunc) Probe(ctx context.Context, obj *unstructured.Unstructured) (Status, error) {
	return f(ctx, obj)
}

// RuleProber is a [Prober] that evaluates the rules of a placement, apply.Strategy.Health. Package
// health/cel has one.
type RuleProber interface {
	Prober
	// ProbeBy is called instead of Probe for the objects of a placement that has rules. It decides
	// by the rule for the object's kind, and as Probe if there is none. The rules were validated,
	// possibly by another process.
	ProbeBy(ctx context.Context, rules []Rule, obj *unstructured.Unstructured) (Status, error)
	// ValidateRules is called when a placement is declared, after [Validate]. It returns further
	// problems, with paths below at.
	ValidateRules(rules []Rule, at *field.Path) field.ErrorList
}
