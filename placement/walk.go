package placement

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Limits of a walk. Beyond them json-patch, which decodes an object once for all operations, is
// at least as fast, or has a limit of its own.
const (
	maxSteps = 64
	maxDepth = 5000
)

// step is an operation on decoded JSON. Its result must equal the result of json-patch;
// [FuzzWalk] compares the two.
type step struct {
	op    PatchOp
	path  []string
	value any
}

// apply returns a tree after the step, and false if the step does not apply. It copies the nodes
// on the path, shares the rest, and does not change the original tree.
func (s *step) apply(tree any) (any, bool) { return s.at(tree, s.path) }

func (s *step) at(tree any, path []string) (any, bool) {
	switch t := tree.(type) {
	case map[string]any:
		return s.inObject(t, path)
	case []any:
		return s.inList(t, path)
	}
	return nil, false
}

func (s *step) inObject(t map[string]any, path []string) (any, bool) {
	name := path[0]
	v, there := t[name]
	switch {
	case len(path) > 1:
		if v, there = s.at(v, path[1:]); !there {
			return nil, false
		}
	case !there && s.op != OpAdd:
		return nil, false
	case s.op == OpRemove:
		t = maps.Clone(t)
		delete(t, name)
		return t, true
	default:
		v = s.value
	}
	t = maps.Clone(t)
	t[name] = v
	return t, true
}

func (s *step) inList(t []any, path []string) (any, bool) {
	last := len(path) == 1
	if last && s.op == OpAdd && path[0] == "-" {
		return append(slices.Clip(t), s.value), true
	}
	i, err := strconv.Atoi(path[0])
	switch {
	case err != nil || i < 0 || i > len(t):
		return nil, false
	case last && s.op == OpAdd:
		return slices.Insert(slices.Clip(t), i, s.value), true
	case i == len(t):
		return nil, false
	case last && s.op == OpRemove:
		return slices.Delete(slices.Clone(t), i, i+1), true
	}
	v, ok := s.value, true
	if !last {
		v, ok = s.at(t[i], path[1:])
	}
	if ok {
		t = slices.Clone(t)
		t[i] = v
	}
	return t, ok
}

// walk applies the active rules to an object that is decoded once for all clusters. It returns
// nil for an object that is left out, and false if something does not apply or must be done by
// json-patch.
func (s *selectedObject) walk(active []activeRules, c *Cluster) (tree map[string]any, metadata, ok bool) {
	doc := s.decoded()
	out := doc.value
	left, depth := maxSteps, doc.depth
	for _, j := range s.overrides {
		for i := range active[j].rules {
			r := &active[j].rules[i]
			if r.delete {
				return nil, metadata, doc.plain
			}
			left, depth, metadata = left-len(r.ops), depth+r.depth, metadata || r.metadata
			steps, ok := r.stepsFor(c)
			if !ok || !doc.plain || left < 0 || depth > maxDepth {
				return nil, false, false
			}
			for k := range steps {
				if out, ok = steps[k].apply(out); !ok {
					return nil, false, false
				}
			}
		}
	}
	tree, ok = out.(map[string]any)
	return tree, metadata, ok
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

// document is decoded JSON.
type document struct {
	value any
	depth int
	// plain reports whether json-patch treats the text exactly as its decoded value: no object
	// repeats a field, and no blanks precede it.
	plain bool
}

func decodeDocument(raw []byte) document {
	var d document
	if len(bytes.TrimLeft(raw, " \t\r\n")) != len(raw) || utiljson.Unmarshal(raw, &d.value) != nil {
		return document{}
	}
	d.depth, d.plain = distinct(json.NewDecoder(bytes.NewReader(raw)))
	return d
}

// distinct returns the depth of the next value of a decoder; ok reports whether no object in it
// repeats a field.
func distinct(d *json.Decoder) (depth int, ok bool) {
	t, err := d.Token()
	if t != json.Delim('{') && t != json.Delim('[') {
		return 1, err == nil
	}
	names := map[json.Token]bool{}
	for d.More() {
		if t == json.Delim('{') {
			name, err := d.Token()
			if err != nil || names[name] {
				return 0, false
			}
			names[name] = true
		}
		below, ok := distinct(d)
		if !ok {
			return 0, false
		}
		depth = max(depth, below)
	}
	_, err = d.Token()
	return depth + 1, err == nil
}
