package value

import (
	"encoding/json"
	"strconv"

	"github.com/slipway-dev/slipway/drift/schema"
)

// AppendKeys appends the identity of an item of a list of type t. Only equal keys give equal
// bytes. It returns false for an item without an identity.
func AppendKeys(b []byte, item any, t *schema.Type) ([]byte, bool) {
	if t.List == schema.Set {
		return appendKey(b, item)
	}
	m, ok := item.(map[string]any)
	if !ok {
		return b, false
	}
	for i := range t.Keys {
		v := KeyOf(m, t, &t.Keys[i])
		if b, ok = appendKey(b, v); !ok {
			return b, false
		}
	}
	return b, len(t.Keys) > 0
}

// KeyOf returns the value of a key of an item. The empty text counts as missing if a server does
// not distinguish them.
func KeyOf(m map[string]any, t *schema.Type, k *schema.Key) any {
	v := m[k.Name]
	if v == nil || v == "" && IsUnset(v, t.Elem.Field(k.Name)) {
		return k.Default
	}
	return v
}

func appendKey(b []byte, v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return append(b, '-'), true
	case bool:
		return strconv.AppendBool(b, v), true
	case string:
		b = strconv.AppendInt(append(b, 's'), int64(len(v)), 10)
		return append(append(b, ':'), v...), true
	case map[string]any, []any:
		return b, false
	}
	if i, ok := Integer(v); ok {
		return append(strconv.AppendInt(append(b, 'i'), i, 10), ';'), true
	}
	if text, ok := v.(json.Number); ok {
		return append(append(append(b, 'n'), text...), ';'), true
	}
	f, ok := float(v)
	return append(strconv.AppendFloat(append(b, 'f'), f, 'g', -1, 64), ';'), ok
}

// KeysOf returns the keys of an item for a path, nil if it has none.
func KeysOf(item any, t *schema.Type) []KeyValue {
	if t == nil {
		return nil
	}
	if t.List == schema.Set {
		return []KeyValue{{Value: item}}
	}
	m, ok := item.(map[string]any)
	if !ok {
		return nil
	}
	var keys []KeyValue
	for _, k := range t.Keys {
		if v := KeyOf(m, t, &k); v != nil {
			keys = append(keys, KeyValue{Name: k.Name, Value: v})
		}
	}
	return keys
}

// KeyValue is a key of an item of a list. The name is empty for an item of a set.
type KeyValue struct {
	Name  string
	Value any
}

// Positions returns the indexes of the items of a list, by their keys.
func Positions(l []any, t *schema.Type) map[string]int {
	places := make(map[string]int, len(l))
	for i, item := range l {
		if key, ok := AppendKeys(nil, item, t); ok {
			addPosition(places, string(key), i)
		}
	}
	return places
}

// addPosition keeps the first index of a key.
func addPosition(places map[string]int, key string, i int) {
	if _, ok := places[key]; !ok {
		places[key] = i
	}
}
