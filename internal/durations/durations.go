// Package durations explains why a document with durations could not be decoded: the error of
// encoding/json names neither the field nor a right value.
package durations

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Explain returns a better error for err, with which the JSON document could not be decoded into a
// value. If a field of the document must be a duration and is not, the error names it with its path
// and value; otherwise it is err.
func Explain(err error, document []byte, into any) error {
	var v any
	if err == nil || json.Unmarshal(document, &v) != nil {
		return err
	}
	if problem := find(nil, reflect.TypeOf(into), v); problem != nil {
		return problem
	}
	return err
}

// find returns the first problem of a value that is decoded into a type, nil for none.
func find(at *field.Path, t reflect.Type, v any) error {
	for t.Kind() == reflect.Pointer {
		if v == nil {
			return nil
		}
		t = t.Elem()
	}
	if t == reflect.TypeFor[metav1.Duration]() {
		return check(at, v)
	}
	if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		list, _ := v.([]any)
		for i := range list {
			if err := find(at.Index(i), t.Elem(), list[i]); err != nil {
				return err
			}
		}
	case reflect.Map:
		members, _ := v.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if err := find(at.Key(name), t.Elem(), members[name]); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return findIn(at, t, v)
	default:
	}
	return nil
}

// findIn returns the first problem of the fields of a struct, in the order of their names.
func findIn(at *field.Path, t reflect.Type, v any) error {
	members, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		for _, f := range reflect.VisibleFields(t) {
			tagged, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || tagged == "" || !strings.EqualFold(tagged, name) {
				continue
			}
			if err := find(at.Child(tagged), f.Type, members[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func check(at *field.Path, v any) error {
	if text, ok := v.(string); ok {
		if _, err := time.ParseDuration(text); err == nil {
			return nil
		}
	}
	shown, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return fmt.Errorf(`%s is %s: must be a duration with its unit, such as "10s" or "1h30m"`, at, shown)
}
