// Package health decides whether an object is healthy. [Kstatus] is the engine's default, with a
// table of kinds that kstatus judges wrongly; rules cover other kinds.
//
// A [Rule] is a document: a kind, and expressions over the object. This package keeps expressions
// as text and checks their form. Package health/cel, a separate module, compiles and evaluates
// them, so that an importer of the engine gets no compiler. A configuration file has rules for all
// placements, and apply.Strategy has rules for one placement.
//
// A [Prober] judges one object; a host may supply its own. Package fleet asks the Prober for the
// health of each object that it has applied.
package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The maximum number of rules in one list, and the maximum length of one expression in bytes.
const (
	MaxRules      = 64
	MaxExpression = 4096
)

// Rule decides whether the objects of a kind are healthy, by expressions of the Common Expression
// Language (CEL). The object is self.
type Rule struct {
	// Group is the API group, empty for the core group. Version is empty for every version of the
	// kind; a rule with the version of an object has priority over a rule without a version.
	Group   string `json:"group,omitempty"`
	Version string `json:"version,omitempty"`
	Kind    string `json:"kind"`
	// Ready is true if the object is healthy: self.status.phase == 'Ready'.
	Ready string `json:"ready"`
	// Failed is true if waiting will not make the object healthy. It is evaluated before Ready.
	Failed string `json:"failed,omitempty"`
	// Message is a string that explains why an object is not healthy.
	Message string `json:"message,omitempty"`
	// AnyGeneration evaluates the rule even if the status is outdated: observedGeneration of the
	// status or of its conditions is older than metadata.generation. Without AnyGeneration, an
	// object with an outdated status is not healthy yet, and the rule does not see outdated
	// conditions, see [Evidence].
	AnyGeneration bool `json:"anyGeneration,omitempty"`
}

// Validate returns the errors in the form of rules, with paths below at. It does not compile
// expressions.
func Validate(rules []Rule, at *field.Path) (errs field.ErrorList) {
	if len(rules) > MaxRules {
		return field.ErrorList{field.TooMany(at, len(rules), MaxRules)}
	}
	first := map[[3]string]int{}
	for i := range rules {
		r, at := &rules[i], at.Index(i)
		if r.Kind == "" {
			errs = append(errs, field.Required(at.Child("kind"), "a rule is for the objects of one kind"))
		}
		if r.Ready == "" {
			errs = append(errs, field.Required(at.Child("ready"), "it says when an object is healthy"))
		}
		for _, e := range r.Expressions() {
			if len(e.Text) > MaxExpression {
				errs = append(errs, field.TooLong(at.Child(e.Field), "", MaxExpression))
			}
		}
		kind := [3]string{r.Group, r.Version, r.Kind}
		if j, twice := first[kind]; twice {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("rule %d is for the same kind", j)))
			continue
		}
		first[kind] = i
	}
	return errs
}

// Expression is one of the expressions of a [Rule], with the name of its field in a document.
type Expression struct{ Field, Text string }

// Expressions returns the expressions of a rule that are set, in the order of evaluation.
func (r *Rule) Expressions() (out []Expression) {
	for _, e := range []Expression{{"failed", r.Failed}, {"ready", r.Ready}, {"message", r.Message}} {
		if e.Text != "" {
			out = append(out, e)
		}
	}
	return out
}

// Find returns the index of the rule for the objects of a kind. It prefers a rule for the version
// of the kind to a rule without a version, and returns -1 if there is neither.
func Find(rules []Rule, group, version, kind string) int {
	every := -1
	for i := range rules {
		r := &rules[i]
		switch {
		case r.Kind != kind || r.Group != group:
		case r.Version == version:
			return i
		case r.Version == "":
			every = i
		}
	}
	return every
}
