package problems

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Differences compares two documents by their JSON and returns the fields that differ. Each entry
// has the path below at, the existing value and the requested value.
func Differences(at string, has, want any) []string {
	a, aerr := tree(has)
	b, berr := tree(want)
	if aerr != nil || berr != nil {
		return []string{at + " is not JSON"}
	}
	return differences(nil, at, a, b)
}

// tree returns a document as decoded JSON.
func tree(v any) (out any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

func differences(out []string, at string, has, want any) []string {
	if reflect.DeepEqual(has, want) {
		return out
	}
	switch a := has.(type) {
	case map[string]any:
		if b, ok := want.(map[string]any); ok {
			keys := maps.Clone(a)
			maps.Copy(keys, b)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				out = differences(out, at+"."+k, a[k], b[k])
			}
			return out
		}
	case []any:
		if b, ok := want.([]any); ok && len(a) == len(b) {
			for i := range a {
				out = differences(out, at+"["+strconv.Itoa(i)+"]", a[i], b[i])
			}
			return out
		}
	}
	return append(out, fmt.Sprintf("%s is %s, and %s was asked for", at, short(has), short(want)))
}

// short returns a value as text for a message, cut to about 100 bytes.
func short(v any) string {
	const most = 100
	if v == nil {
		return "not set"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "not JSON"
	}
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}
