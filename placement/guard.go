package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// guard holds the restrictions on one object; nil forbids nothing.
type guard struct {
	// whole is the error of an override that selects the object, nil if overrides may select it.
	whole error
	paths []guardedPath
}

// guardedPath is a path whose values overrides must not change.
type guardedPath struct {
	pattern []string
	// was has the original values, by their path in the object.
	was map[string]any
	// refusal is the error when a value differs from the original.
	refusal error
}

// newGuard returns the guard of an object of a kind.
func newGuard(restrictions []Restriction, group, kind string, body []byte) (*guard, error) {
	var g guard
	for _, r := range restrictions {
		if !r.covers(group, kind) {
			continue
		}
		if len(r.Paths) == 0 {
			g.whole = fmt.Errorf("the host forbids overrides to select %s", clip(r.String()))
		}
		obj, err := decodeObject(body)
		if err != nil {
			return nil, err
		}
		for _, p := range r.Paths {
			pattern, _ := parsePointer(p)
			g.paths = append(g.paths, guardedPath{pattern, found(obj.Object, pattern), errors.New(r.refusal(p))})
		}
	}
	if g.whole == nil && len(g.paths) == 0 {
		return nil, nil
	}
	return &g, nil
}

// selected returns the error of an override that selects the object.
func (g *guard) selected() error {
	if g == nil {
		return nil
	}
	return g.whole
}

// check returns an error if a guarded value of the object has changed.
func (g *guard) check(obj *unstructured.Unstructured) error {
	if g == nil {
		return nil
	}
	for _, p := range g.paths {
		if !reflect.DeepEqual(p.was, found(obj.Object, p.pattern)) {
			return p.refusal
		}
	}
	return nil
}

// ForbiddenChange returns the first restriction that overrides violated when they turned before
// into after, nil if there is none. It checks objects that were rendered under other
// restrictions. A nil after is an object that the overrides left out. The restrictions must be
// valid; before and after are not changed.
func ForbiddenChange(before, after *unstructured.Unstructured, restrictions []Restriction) error {
	body, err := json.Marshal(before.Object)
	if err != nil {
		return errors.New("the object has no JSON form")
	}
	gvk := before.GroupVersionKind()
	g, err := newGuard(restrictions, gvk.Group, gvk.Kind, body)
	if err == nil {
		err = g.selected()
	}
	if err != nil || after == nil {
		return err
	}
	return g.check(after)
}

// verdict is the state of a guard while overrides are applied to an object.
type verdict struct {
	guard *guard
	// rule is the override and the rule that are being applied.
	rule string
	// refusal is the current error of the guard, or nil; told is this error with the operation
	// that caused it.
	refusal, told error
}

// after checks the object that an operation returned.
func (v *verdict) after(body []byte, located func(error) error) error {
	if v.guard == nil {
		return nil
	}
	obj, err := decodeObject(body)
	if err != nil {
		return err
	}
	before := v.refusal
	if v.refusal = v.guard.check(obj); v.refusal != nil && !errors.Is(v.refusal, before) {
		v.told = fmt.Errorf("%s: %w", v.rule, located(v.refusal))
	}
	return nil
}

// final returns the error of the guard for the finished object, with the operation that caused it.
func (v *verdict) final() error {
	if v.refusal == nil {
		return nil
	}
	return v.told
}

// found returns the values that a pattern matches in a tree, by their path.
func found(tree any, pattern []string) map[string]any {
	out := map[string]any{}
	find(tree, pattern, "", out)
	return out
}

func find(tree any, pattern []string, way string, out map[string]any) {
	if len(pattern) == 0 {
		out[way] = tree
		return
	}
	for step, v := range children(tree, pattern[0]) {
		find(v, pattern[1:], way+step, out)
	}
}

// children yields the values that a token of a pattern matches, each with its step in a form that
// is unique among the steps.
func children(tree any, token string) iter.Seq2[string, any] {
	switch t := tree.(type) {
	case map[string]any:
		if token == anything {
			return quoted(maps.All(t))
		}
		if v, ok := t[token]; ok {
			return quoted(maps.All(map[string]any{token: v}))
		}
	case []any:
		return elements(t, token)
	}
	return func(func(string, any) bool) {}
}

func quoted(all iter.Seq2[string, any]) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for name, v := range all {
			if !yield(strconv.Quote(name), v) {
				return
			}
		}
	}
}

func elements(list []any, token string) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for i, v := range slices.All(list) {
			if index := strconv.Itoa(i); (token == anything || token == index) && !yield("["+index+"]", v) {
				return
			}
		}
	}
}
