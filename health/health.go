// Package health says when an object is healthy: [Kstatus] is the engine's default, with a table of kinds that kstatus
// judges wrongly, and rules are for other kinds.
//
// A [Rule] is a document: a kind, and expressions over the object. This package keeps them as text and checks their
// form; package health/cel, a module of its own, compiles and evaluates them, so that an importer of the engine gets
// no compiler. A configuration file has rules for all placements, and apply.Strategy those of one placement.
//
// A [Prober] judges one object; a host may bring its own. Package fleet asks it for the health of each object that it has
// applied.
package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The most rules of one list, and the most bytes of one expression.
const (
	MaxRules      = 64
	MaxExpression = 4096
)

// Rule says when the objects of a kind are healthy, by expressions of the Common Expression Language (CEL) in which
// the object is self.
type Rule struct {
	// Group is the API group, empty for the core group. Version is empty for every version of the kind; a rule that
	// names the version of an object goes before one that does not.
	Group   string `json:"group,omitempty"`
	Version string `json:"version,omitempty"`
	Kind    string `json:"kind"`
	// Ready is true where the object is healthy: self.status.phase == 'Ready'.
	Ready string `json:"ready"`
	// Failed is true where waiting will not make the object healthy. It is evaluated before Ready.
	Failed string `json:"failed,omitempty"`
	// Message is a string that says what an object lacks that is not healthy.
	Message string `json:"message,omitempty"`
	// AnyGeneration evaluates the rule also if the controller wrote the status before it saw the object as it is now:
	// status.observedGeneration is older than metadata.generation, or that of its conditions is. Otherwise such an object
	// is not healthy yet, and the rule does not see older conditions, see [Evidence].
	AnyGeneration bool `json:"anyGeneration,omitempty"`
}

// Validate returns what is wrong with the form of rules, with paths below at. It does not compile expressions.
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

// Expressions returns the expressions that a rule has, in the order in which they are evaluated.
func (r *Rule) Expressions() (out []Expression) {
	for _, e := range []Expression{{"failed", r.Failed}, {"ready", r.Ready}, {"message", r.Message}} {
		if e.Text != "" {
			out = append(out, e)
		}
	}
	return out
}

// Find returns the index of the rule for the objects of a kind: that for the version, or else that for every version,
// or -1.
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
