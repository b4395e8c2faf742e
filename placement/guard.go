package placement

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// guard is what restrictions say of one object; nil says nothing.
type guard struct {
	// whole is why no override may select the object, or nil.
	whole error
	paths []guardedPath
}

// guardedPath leads to what is to stay as it is.
type guardedPath struct {
	pattern []string
	// was is what is there, by the way to it.
	was map[string]any
	// refusal is the error where it is not that any more.
	refusal error
}

// newGuard returns what restrictions say of an object of a kind.
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

// selected is the error where no override may select the object.
func (g *guard) selected() error {
	if g == nil {
		return nil
	}
	return g.whole
}

// check is the error where an object is not what it has to be.
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

// verdict is what a guard says of an object on its way through overrides.
type verdict struct {
	guard *guard
	// rule is the override and the rule that are being applied.
	rule string
	// refusal is what the guard says now, or nil; told names the operation after
	// which it began to say so.
	refusal, told error
}

// after takes in what an operation has made of the object.
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

// final is the error where the object is not what it has to be, and names the
// operation that made it so.
func (v *verdict) final() error {
	if v.refusal == nil {
		return nil
	}
	return v.told
}

// found returns what a pattern leads to in a tree, by the way to it.
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

// children yields what a token of a pattern leads to, and each step there in a
// form that no two steps have in common.
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
