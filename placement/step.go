package placement

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
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

func decodeObject(body []byte) (*unstructured.Unstructured, error) {
	var m map[string]any
	if err := utiljson.Unmarshal(body, &m); err != nil {
		return nil, errors.New("the patched object is not JSON")
	}
	return &unstructured.Unstructured{Object: m}, nil
}
