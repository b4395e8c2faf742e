package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Decode reads one object from JSON. Integers become int64, other numbers float64. It is strict:
// duplicate keys, integers outside of int64, invalid UTF-8, anything after the object, more than
// [MaxDepth] levels, more than [MaxObjectBytes] and an object without apiVersion, kind or
// metadata.name are errors. Escapes of unpaired surrogates are read as U+FFFD.
//
// The caller must check the body of a snapshot with [Verify] first.
func Decode(body []byte) (*unstructured.Unstructured, error) {
	m, err := decodeMap(body)
	if err != nil {
		return nil, fmt.Errorf("snapshot: decoding an object: %w", err)
	}
	obj := &unstructured.Unstructured{Object: m}
	if err := IDOf(obj).check(); err != nil {
		return nil, fmt.Errorf("snapshot: decoding %s: %w", IDOf(obj), err)
	}
	return obj, nil
}

func decodeMap(body []byte) (map[string]any, error) {
	if err := checkSize(len(body)); err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	if m, ok := decodeFast(body); ok {
		return m, nil
	}
	return decodeSlow(body)
}

// decodeFast decodes valid objects at a fraction of the cost of decodeSlow. It does not name the
// problem of an invalid object.
func decodeFast(body []byte) (map[string]any, bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil || m == nil {
		return nil, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	members := 0
	_, ok := convert(m, 0, &members)
	// A duplicate key occurs only once in the map.
	return m, ok && members == countMembers(body)
}

// convert replaces the numbers below v, in place, and adds up the members of the maps. It stops
// at a value that Decode refuses.
func convert(v any, depth int, members *int) (_ any, ok bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := numberValue(string(v))
		return n, err == nil
	case map[string]any:
		*members += len(v)
		for k, child := range v {
			if v[k], ok = convert(child, depth+1, members); !ok {
				return nil, false
			}
		}
		return v, depth < MaxDepth
	case []any:
		for i, child := range v {
			if v[i], ok = convert(child, depth+1, members); !ok {
				return nil, false
			}
		}
		return v, depth < MaxDepth
	}
	return v, true
}

// countMembers counts the members of all objects in valid JSON, by its colons outside of strings.
func countMembers(body []byte) int {
	n, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++ // only strings have it
		case c == ':' && !quoted:
			n++
		}
	}
	return n
}

// decodeSlow decodes token by token, checks every key, and names the problem.
func decodeSlow(body []byte) (map[string]any, error) {
	d := decoder{json.NewDecoder(bytes.NewReader(body))}
	d.UseNumber()
	v, bad := d.value(0)
	if bad != nil {
		return nil, bad
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the JSON is not an object")
	}
	return m, d.end()
}

// decoder builds values from tokens.
type decoder struct{ *json.Decoder }

func (d decoder) value(depth int) (any, *valueError) {
	t, err := d.Token()
	if err != nil {
		return nil, d.syntax(err)
	}
	switch t := t.(type) {
	case json.Delim:
		return d.container(t, depth+1)
	case json.Number:
		n, err := numberValue(string(t))
		if err != nil {
			return nil, wrong("%s", err.Error())
		}
		return n, nil
	}
	return t, nil
}

func (d decoder) container(open json.Delim, depth int) (any, *valueError) {
	if depth > MaxDepth {
		return nil, wrong("nested deeper than %d levels", MaxDepth)
	}
	if open == '[' {
		return d.list(depth)
	}
	return d.object(depth)
}

func (d decoder) object(depth int) (any, *valueError) {
	m := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, d.syntax(err)
		}
		key, _ := t.(string) // the tokenizer refuses any other key
		if _, twice := m[key]; twice {
			return nil, wrong("the key is there twice").at(key)
		}
		v, bad := d.value(depth)
		if bad != nil {
			return nil, bad.at(key)
		}
		m[key] = v
	}
	return m, d.close()
}

func (d decoder) list(depth int) (any, *valueError) {
	l := []any{}
	for d.More() {
		v, bad := d.value(depth)
		if bad != nil {
			return nil, bad.at(strconv.Itoa(len(l)))
		}
		l = append(l, v)
	}
	return l, d.close()
}

func (d decoder) close() *valueError {
	if _, err := d.Token(); err != nil {
		return d.syntax(err)
	}
	return nil
}

// syntax reports the offset of the syntax error, without quoting the JSON.
func (d decoder) syntax(error) *valueError {
	return wrong("the text is not valid JSON, at byte %d", d.InputOffset())
}

// end fails unless the input ends here.
func (d decoder) end() error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is more after the object, at byte %d", d.InputOffset())
	}
	return nil
}
