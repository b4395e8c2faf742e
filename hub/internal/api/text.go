package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// FromMap reads a field of an object into v, by its JSON tags. What v does not
// have is left out.
func FromMap(obj *unstructured.Unstructured, name string, v any) error {
	b, err := json.Marshal(obj.Object[name])
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %s: %w", obj.GetKind(), obj.GetName(), name, err)
	}
	return nil
}

// Printable is a text of unknown origin as a status may show it: valid UTF-8
// without control characters, of at most limit bytes.
func Printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= limit {
		return text
	}
	end := max(limit-len("…"), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// ToMap is a status, or any value with JSON tags, as unstructured objects have
// it: it shares nothing with v.
func ToMap(v any) (map[string]any, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		return nil, fmt.Errorf("%T has no unstructured form: %w", v, err)
	}
	return m, nil
}
