package placement

import (
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// activeRules are the rules of an override that select a cluster, in order.
type activeRules struct {
	rules []activeRule
	// outcome is the same for clusters for which the same comes of an object;
	// what is sharable is the same for more than one of them.
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

// outcome names what becomes of an object: the index of the object and what is
// active of the overrides that select it.
type outcome struct {
	object int
	active string
}

// outcome returns what becomes of the object at an index, and whether other
// clusters can have the same.
func (s *selectedObject) outcome(object int, active []activeRules) (outcome, bool) {
	all := make([]string, len(s.overrides))
	for n, j := range s.overrides {
		if !active[j].sharable {
			return outcome{}, false
		}
		all[n] = active[j].outcome
	}
	return outcome{object, strings.Join(all, "|")}, true
}

// shared are the objects that came of outcomes, nil for one that is left out.
type shared struct {
	mu   sync.Mutex
	objs map[outcome]*unstructured.Unstructured
}

// get returns what came of an outcome, which is made where it is missing. Who
// asks for the same one at the same time may make it too; the first one counts.
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
