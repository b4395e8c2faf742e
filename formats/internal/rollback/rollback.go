// Package rollback answers how the files that Slipway reads say when a run takes back
// what it brought, which none of the systems has whose files they are. It is the
// same object in all of them:
//
//	causes: [BudgetExceeded, GateRejected]   # or Command alone; these two where absent
//	newClusters: Remove                      # or Leave
//	approval:                                # without it nobody is asked
//	  quorums: [{group: sre, count: 2}]      # without them anybody, once
//	  forbidStarter: true
//	  expires: 24h
//	  requireBinding: true
package rollback

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// Form is a rollback as it is written.
type Form struct {
	Causes      []stages.RollbackCause `json:"causes,omitempty"`
	NewClusters stages.NewClusters     `json:"newClusters,omitempty"`
	Approval    *Approval              `json:"approval,omitempty"`
}

// Approval is who is asked before the first cluster goes back, as it is written.
type Approval struct {
	Quorums       []approval.Quorum `json:"quorums,omitempty"`
	ForbidStarter bool              `json:"forbidStarter,omitempty"`
	// Expires is a duration such as 24h0m0s.
	Expires        string `json:"expires,omitempty"`
	RequireBinding bool   `json:"requireBinding,omitempty"`
}

// FormOf returns the form of a rollback, nil for nil.
func FormOf(b *stages.Rollback) *Form {
	if b == nil {
		return nil
	}
	f := &Form{Causes: b.Causes, NewClusters: b.New}
	if p := b.Approval; p != nil {
		f.Approval = &Approval{Quorums: p.Quorums, ForbidStarter: p.ForbidStarter, RequireBinding: p.RequireBinding}
		if p.Expires != 0 {
			f.Approval.Expires = p.Expires.String()
		}
	}
	return f
}

// Report is told of a problem: its line, its path, and what is wrong and what would
// be right.
type Report func(line int, path, text string)

// Read reads a rollback from a part of a document that stands at path. What a
// strategy checks by itself is left to it: causes that stand there twice, the bounds
// of numbers.
func Read(n *yaml.Node, path string, report Report) *stages.Rollback {
	var b stages.Rollback
	value{report, resolved(n), path}.object(fields{
		"causes": func(v value) { b.Causes = v.causes() },
		"newClusters": func(v value) {
			b.New = stages.NewClusters(v.oneOf(string(stages.RemoveNew), string(stages.LeaveNew)))
		},
		"approval": func(v value) { b.Approval = v.policy() },
	})
	return &b
}

// Check returns what a strategy finds wrong with a rollback, for those who have no
// strategy yet. Paths begin with rollback.
func Check(b *stages.Rollback) (errs field.ErrorList) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "x"}}, Rollback: b}
	var all utilerrors.Aggregate
	if !errors.As(s.Validate(), &all) {
		return nil
	}
	for _, e := range all.Errors() {
		if fe, ok := errors.AsType[*field.Error](e); ok {
			errs = append(errs, fe)
		}
	}
	return errs
}

// value is a place in a document.
type value struct {
	report Report
	node   *yaml.Node
	path   string
}

// fields are the fields that an object may have and what reads each.
type fields map[string]func(value)

func (v value) causes() (list []stages.RollbackCause) {
	v.list(func(v value) {
		c := v.oneOf(string(stages.BudgetExceeded), string(stages.GateRejected), string(stages.OnCommand))
		list = append(list, stages.RollbackCause(c))
	})
	if v.node.Kind == yaml.SequenceNode && len(list) == 0 {
		v.fail("must name a cause; leave it out for %s and %s", stages.BudgetExceeded, stages.GateRejected)
	}
	return slices.DeleteFunc(list, func(c stages.RollbackCause) bool { return c == "" })
}

func (v value) policy() *approval.Policy {
	var p approval.Policy
	v.object(fields{
		"quorums":        func(v value) { v.list(func(v value) { p.Quorums = append(p.Quorums, v.quorum()) }) },
		"forbidStarter":  func(v value) { p.ForbidStarter = v.boolean() },
		"expires":        func(v value) { p.Expires = v.duration() },
		"requireBinding": func(v value) { p.RequireBinding = v.boolean() },
	})
	return &p
}

func (v value) quorum() approval.Quorum {
	q := approval.Quorum{Count: 1}
	v.object(fields{
		"group": func(v value) { q.Group = v.str() },
		"count": func(v value) { q.Count = v.count() },
	})
	return q
}

func (v value) fail(format string, args ...any) {
	v.report(v.node.Line, v.path, fmt.Sprintf(format, args...))
}

// resolved follows an alias; the line stays where that is.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.AliasNode || n.Alias == nil {
		return n
	}
	there := *n.Alias
	there.Line = n.Line
	return &there
}

// object reads an object. A field that is null counts as absent.
func (v value) object(known fields) {
	if v.node.Kind != yaml.MappingNode {
		v.fail("must be an object, not %s", v.describe())
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := resolved(v.node.Content[i])
		child := value{v.report, resolved(v.node.Content[i+1]), v.path + "." + cmp.Or(clip(key.Value), `""`)}
		read, found := known[key.Value]
		line, twice := seen[key.Value]
		seen[key.Value] = key.Line
		switch {
		case twice:
			v.report(key.Line, child.path, fmt.Sprintf("is there already, on line %d; leave one of the two", line))
		case !found || key.Kind != yaml.ScalarNode:
			v.report(key.Line, child.path, "unknown field; known are "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case child.node.ShortTag() != "!!null":
			read(child)
		}
	}
}

func (v value) list(f func(value)) {
	if v.node.Kind != yaml.SequenceNode {
		v.fail("must be a list, not %s", v.describe())
		return
	}
	for i, n := range v.node.Content {
		f(value{v.report, resolved(n), v.path + "[" + strconv.Itoa(i) + "]"})
	}
}

func (v value) str() string {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!str" {
		v.fail("must be a string, not %s", v.describe())
		return ""
	}
	return v.node.Value
}

func (v value) oneOf(allowed ...string) string {
	s := v.str()
	if s != "" && !slices.Contains(allowed, s) {
		v.fail("must be %s, not %q", strings.Join(allowed, " or "), clip(s))
		return ""
	}
	return s
}

func (v value) boolean() bool {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!bool" {
		v.fail("must be true or false, not %s", v.describe())
	}
	return v.node.Value == "true"
}

func (v value) count() int {
	n, err := strconv.ParseInt(v.node.Value, 10, 32)
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!int" || err != nil || n < 1 {
		v.fail("must be a number of at least 1, not %s", v.describe())
		return 1
	}
	return int(n)
}

func (v value) duration() time.Duration {
	s := v.str()
	d, err := time.ParseDuration(s)
	if s != "" && (err != nil || d <= 0) {
		v.fail("must be a duration of more than 0, such as 24h, not %q", clip(s))
	}
	return d
}

// describe names the type of the value.
func (v value) describe() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	default:
	}
	switch v.node.ShortTag() {
	case "!!int", "!!float":
		return "the number " + clip(v.node.Value)
	case "!!bool":
		return "a boolean"
	case "!!null":
		return "null"
	}
	return "a string"
}

// clip bounds what a problem repeats of its input.
func clip(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
