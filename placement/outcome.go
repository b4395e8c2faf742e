package placement

import (
	"strconv"
	"sync"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// activeRules are the rules of an override that select a cluster, in order.
type activeRules struct {
	rules []activeRule
	// outcome is equal for two clusters if the override renders the same for both. If it is not
	// sharable, the result differs for each cluster.
	outcome  string
	sharable bool
}

// activeFor returns the rules that select the cluster.
func (o *compiledOverride) activeFor(c *Cluster) activeRules {
	a := activeRules{sharable: true}
	var outcome []byte
	for i := range o.rules {
		r := &o.rules[i]
		if !r.match(c) {
			continue
		}
		a.rules = append(a.rules, activeRule{compiledRule: r})
		a.sharable = a.sharable && !r.uses.name
		outcome = strconv.AppendInt(outcome, int64(i), 10)
		for _, key := range r.uses.labels {
			value, has := c.Labels[key]
			outcome = strconv.AppendBool(append(outcome, ' '), has)
			outcome = strconv.AppendQuote(outcome, value)
		}
		outcome = append(outcome, ';')
	}
	a.outcome = string(outcome)
	return a
}

// activeRule is a rule that selects a cluster.
type activeRule struct {
	*compiledRule
	steps []step
	state stepsState
}

// stepsState says whether the steps of a rule on a cluster were computed.
type stepsState int

const (
	stepsUnknown stepsState = iota
	stepsKnown
	stepsNone // the rule is left to json-patch
)

// stepsFor returns the rule's operations on the cluster, the same for all objects.
func (r *activeRule) stepsFor(c *Cluster) ([]step, bool) {
	if r.state == stepsUnknown {
		r.state = stepsNone
		if steps, ok := r.compiledRule.steps(c); ok {
			r.steps, r.state = steps, stepsKnown
		}
	}
	return r.steps, r.state == stepsKnown
}

// steps returns the rule's operations for a cluster. It returns false if json-patch must apply
// them, or if a value cannot be rendered for the cluster.
func (r *compiledRule) steps(c *Cluster) ([]step, bool) {
	if !r.plain {
		return nil, false
	}
	steps := make([]step, len(r.ops))
	for i, op := range r.ops {
		steps[i] = op.step
		if op.value.tree == nil {
			continue
		}
		var ok bool
		if steps[i].value, ok = op.value.decoded(op.step.value, c); !ok {
			return nil, false
		}
	}
	return steps, true
}

// decoded returns the value for a cluster; doc is its decoded form with variables.
func (v value) decoded(doc any, c *Cluster) (any, bool) {
	text := true
	out, err := mapStrings(doc, func(s string) (string, error) {
		return substitute(s, func(variable string) (string, error) {
			is, err := lookup(variable, c)
			text = text && utf8.ValidString(is)
			return is, err
		})
	})
	return out, err == nil && text
}

// outcome identifies the result of rendering an object: the index of the object and the active
// rules of the overrides that select it.
type outcome struct {
	object int
	active string
}

// shared caches rendered objects by outcome; the object is nil if it is left out.
type shared struct {
	mu   sync.Mutex
	objs map[outcome]*unstructured.Unstructured
}

// get returns the object of an outcome, rendering it on the first call. Concurrent first calls
// may each render it; all return the one that was stored first.
func (s *shared) get(o outcome, render func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	obj, ok := s.objs[o]
	s.mu.Unlock()
	if ok {
		return obj, nil
	}
	obj, err := render()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.objs[o]; ok {
		return first, nil
	}
	if s.objs == nil {
		s.objs = map[outcome]*unstructured.Unstructured{}
	}
	s.objs[o] = obj
	return obj, nil
}
