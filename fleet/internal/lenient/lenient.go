// Package lenient applies objects that kubectl apply accepts and a server-side apply refuses. Such
// an object has an unknown field, or several items of a list under one key. The package drops the
// field, and all items of the key but the last.
package lenient

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
)

// rounds is the limit of calls for one object. There may be several, because a server may name
// only some of the fields.
const rounds = 10

// Apply calls apply with an object. If apply returns a [*backend.SchemaError], Apply drops the
// parts that the error names from a copy and calls apply again. It returns the paths of the
// dropped parts, and does not change the object.
func Apply(obj *unstructured.Unstructured, apply func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (live *unstructured.Unstructured, left []string, err error) {
	for range rounds {
		live, err = apply(obj)
		refused := (*backend.SchemaError)(nil)
		if !errors.As(err, &refused) {
			return live, left, err
		}
		rest, dropped := without(obj, refused)
		if len(dropped) == 0 {
			return live, left, err
		}
		obj, left = rest, append(left, dropped...)
	}
	return live, left, err
}

// without returns a copy of an object without the parts that an error names, and the paths of the
// parts that it found.
func without(obj *unstructured.Unstructured, refused *backend.SchemaError) (rest *unstructured.Unstructured, left []string) {
	rest = obj.DeepCopy()
	for _, path := range slices.Concat(refused.Unknown, refused.Repeated) {
		if drop(rest.Object, path) {
			left = append(left, path)
		}
	}
	return rest, left
}

// drop removes the field at a path of structured-merge-diff from v. If the path ends with the key
// of an item, drop removes all items of the key but the last. It reports whether it removed
// anything.
func drop(v any, path string) bool {
	switch v := v.(type) {
	case map[string]any:
		name, rest, ok := fieldOf(v, path)
		if !ok {
			return false
		}
		if rest == "" {
			delete(v, name)
			return true
		}
		if key, after, ok := keyOf(rest); ok && after == "" {
			list, _ := v[name].([]any)
			kept := lastOf(list, key)
			v[name] = kept
			return len(kept) < len(list)
		}
		return drop(v[name], rest)
	case []any:
		key, rest, ok := keyOf(path)
		dropped := false
		for i, item := range v {
			if ok && key.isOf(i, item) {
				dropped = drop(item, rest) || dropped
			}
		}
		return dropped
	}
	return false
}

// lastOf returns a list without the items of a key that come before the last item of the key.
func lastOf(list []any, key key) []any {
	kept, found := make([]any, 0, len(list)), false
	for i, item := range slices.Backward(list) {
		if is := key.isOf(i, item); !is || !found {
			kept, found = append(kept, item), found || is
		}
	}
	slices.Reverse(kept)
	return kept
}

// fieldOf returns the field of m that a path begins with. Names may contain dots and brackets: the
// longest counts.
func fieldOf(m map[string]any, path string) (name, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, ".")
	if !ok {
		return "", "", false
	}
	for _, name := range slices.SortedFunc(maps.Keys(m), func(a, b string) int { return len(b) - len(a) }) {
		if rest, ok := strings.CutPrefix(path, name); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return name, rest, true
		}
	}
	return "", "", false
}

// key names items of a list: by fields, by the whole value under the name "", or by the index.
type key struct {
	fields map[string]string // as JSON
	index  int               // -1 for none
}

// keyOf returns the key that a path begins with: [name="web",port=80], [="value"] or [3].
func keyOf(path string) (k key, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, "[")
	if !ok {
		return key{}, "", false
	}
	if text, rest, found := strings.Cut(path, "]"); found {
		if i, err := strconv.Atoi(text); err == nil {
			return key{index: i}, rest, true
		}
	}
	k = key{fields: map[string]string{}, index: -1}
	for {
		name, after, found := strings.Cut(path, "=")
		if !found {
			return key{}, "", false
		}
		value, err := strconv.QuotedPrefix(after)
		if err != nil {
			value = after[:max(0, strings.IndexAny(after, ",]"))]
		}
		k.fields[name] = value
		path = after[len(value):]
		if rest, end := strings.CutPrefix(path, "]"); end {
			return k, rest, true
		}
		if path, found = strings.CutPrefix(path, ","); !found {
			return key{}, "", false
		}
	}
}

// isOf reports whether an item may have the key. A field that the item does not have has its
// default value.
func (k key) isOf(i int, item any) bool {
	if k.index >= 0 {
		return i == k.index
	}
	if whole, ok := k.fields[""]; ok {
		return textOf(item) == whole
	}
	m, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for name, want := range k.fields {
		if v, has := m[name]; has && textOf(v) != want {
			return false
		}
	}
	return true
}

// textOf writes a scalar as structured-merge-diff does in a key.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}
