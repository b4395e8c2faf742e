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

// outcome identifies the result of rendering an object: the index of the object and the active
// rules of the overrides that select it.
type outcome struct {
	object int
	active string
}

// outcome returns the outcome for the object at an index, and whether other clusters can share it.
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
