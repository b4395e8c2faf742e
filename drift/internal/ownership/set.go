package ownership

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/value"
)

var (
	// errUnknown marks a kind of path element that a later server may write.
	errUnknown  = errors.New("an unknown sort of field")
	errNoObject = errors.New("what is below a field is no object")
)

func errTooManyFields() error {
	return fmt.Errorf("all entries together name more than %d fields", MaxFields)
}

// parseSet reads a fieldsV1. It counts the fields down from left.
func parseSet(fields map[string]any, left *int) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	return set, fill(set, fields, 1, left)
}

// parsed is an element with its nested fields.
type parsed struct {
	element fieldpath.PathElement
	below   map[string]any
}

// fill inserts in sorted order, because the sets are sorted slices, to which appending is cheap.
func fill(set *fieldpath.Set, fields map[string]any, depth int, left *int) error {
	if depth > MaxDepth {
		return fmt.Errorf("its fields lie in each other more than %d levels deep", MaxDepth)
	}
	if *left -= len(fields); *left < 0 {
		return errTooManyFields()
	}
	elements, err := parseElements(fields)
	if err != nil {
		return err
	}
	for _, p := range elements {
		_, self := p.below["."]
		if self || len(p.below) == 0 {
			set.Members.Insert(p.element)
		}
		if len(p.below) == 0 || self && len(p.below) == 1 {
			continue
		}
		if err := fill(set.Children.Descend(p.element), p.below, depth+1, left); err != nil {
			return err
		}
	}
	return nil
}

func parseElements(fields map[string]any) ([]parsed, error) {
	elements := make([]parsed, 0, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "." {
			continue
		}
		pe, err := parseElement(key)
		if errors.Is(err, errUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		below, ok := fields[key].(map[string]any)
		if !ok && fields[key] != nil {
			return nil, errNoObject
		}
		elements = append(elements, parsed{pe, below})
	}
	slices.SortStableFunc(elements, func(a, b parsed) int { return a.element.Compare(b.element) })
	return elements, nil
}

// parseElement reads f:name, k:{"name":"a"}, v:"a" or i:0. The error does not contain the text.
func parseElement(s string) (fieldpath.PathElement, error) {
	sort, text, ok := strings.Cut(s, ":")
	if !ok {
		return fieldpath.PathElement{}, errors.New("the name of a field does not begin with f, k, v or i and a colon")
	}
	switch sort {
	case "f":
		return fieldpath.PathElement{FieldName: &text}, nil
	case "v":
		return setElement(text)
	case "k":
		return keyElement(text)
	case "i":
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fieldpath.PathElement{}, errors.New("the index of an item is no number")
		}
		return fieldpath.PathElement{Index: &n}, nil
	}
	return fieldpath.PathElement{}, errUnknown
}

func setElement(text string) (fieldpath.PathElement, error) {
	v, err := decode(text)
	if err != nil || !plain(v) {
		return fieldpath.PathElement{}, errors.New("the value of an item is no plain JSON value")
	}
	wrapped := value.NewValueInterface(number(v))
	return fieldpath.PathElement{Value: &wrapped}, nil
}

func keyElement(text string) (fieldpath.PathElement, error) {
	wrong := errors.New("the key of an item is no JSON object of plain values")
	v, err := decode(text)
	m, ok := v.(map[string]any)
	if err != nil || !ok || len(m) == 0 {
		return fieldpath.PathElement{}, wrong
	}
	keys := make(value.FieldList, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !plain(m[name]) {
			return fieldpath.PathElement{}, wrong
		}
		keys = append(keys, value.Field{Name: name, Value: value.NewValueInterface(number(m[name]))})
	}
	return fieldpath.PathElement{Key: &keys}, nil
}

// decode reads one JSON value and refuses anything after it.
func decode(text string) (any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the value")
	}
	return v, nil
}

func plain(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// number converts a json.Number to a type that structured-merge-diff supports.
func number(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, _ := n.Float64()
	return f
}
