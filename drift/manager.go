package drift

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Applier returns the field manager that applied an object of the hub to a member, for
// Options.Manager. It picks the manager whose Apply entry in managedFields has the most
// fields of the hub's object. It returns an empty name if no manager has at least half of these
// fields. It ignores a manager that applied more than four times as many fields as it shares with
// the hub's object, because that manager applied another object. Controllers apply other fields, so
// they do not match.
func Applier(hub, member *unstructured.Unstructured) string {
	asked := content(hub.Object)
	best, least := "", (leaves(asked)+1)/2
	for _, entry := range member.GetManagedFields() {
		if entry.Operation != "Apply" || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		if n, size := said(asked, entry.FieldsV1.GetRawBytes()); n >= least && size <= muchMore*n {
			best, least = entry.Manager, n+1
		}
	}
	return best
}

// muchMore is the largest ratio of applied fields to fields of the hub's object at which
// the entry may still belong to the hub's object.
const muchMore = 4

// content returns the fields of an object that people write: labels, annotations, and all
// top-level fields except apiVersion, kind and status.
func content(o map[string]any) map[string]any {
	asked := map[string]any{}
	for name, v := range o {
		switch name {
		case "apiVersion", "kind", "status":
		case "metadata":
			meta, _ := v.(map[string]any)
			kept := map[string]any{}
			for _, name := range []string{"annotations", "labels"} {
				if meta[name] != nil {
					kept[name] = meta[name]
				}
			}
			if len(kept) > 0 {
				asked[name] = kept
			}
		default:
			asked[name] = v
		}
	}
	return asked
}

// said returns the number of values of an object that are in a set of fields, and the
// size of the set.
func said(o map[string]any, fieldsV1 []byte) (n, size int) {
	var set map[string]any
	if json.Unmarshal(fieldsV1, &set) != nil {
		return 0, 0
	}
	for name, v := range o {
		if below, ok := set["f:"+name]; ok {
			n += applied(v, below)
		}
	}
	return n, leaves(set)
}

// leaves counts the plain values in a value; an empty map or list is one.
func leaves(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += leaves(e)
		}
	case []any:
		for _, e := range v {
			n += leaves(e)
		}
	}
	return max(n, 1)
}

// applied counts the values of v that are in a set of fields. A field without any
// field below it includes all values below it.
func applied(v, fields any) (n int) {
	set, _ := fields.(map[string]any)
	if _, itself := set["."]; len(set) == 0 || itself && len(set) == 1 {
		return leaves(v)
	}
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if below, ok := set["f:"+name]; ok {
				n += applied(e, below)
			}
		}
	case []any:
		return appliedItems(v, set)
	}
	return n
}

// maxCompared is the maximum number of pairs of an item and its keys that are compared in
// a list. Longer lists are not counted.
const maxCompared = 1_000_000

// appliedItems is applied for the items of a list, by their keys or values.
func appliedItems(l []any, set map[string]any) (n int) {
	if len(l) > maxCompared/len(set) {
		return 0
	}
	for name, below := range set {
		kind, text, _ := strings.Cut(name, ":")
		var key any
		if kind != "k" && kind != "v" || json.Unmarshal([]byte(text), &key) != nil {
			continue
		}
		for _, item := range l {
			if answers(item, key) {
				n += applied(item, below)
				break
			}
		}
	}
	return n
}

// answers reports whether an item matches the keys of a set of fields. A key that the
// item lacks matches, because it may have a default.
func answers(item, key any) bool {
	keys, ok := key.(map[string]any)
	if !ok {
		return asText(item) == asText(key)
	}
	m, ok := item.(map[string]any)
	for name, v := range keys {
		if e, there := m[name]; there && asText(e) != asText(v) {
			return false
		}
	}
	return ok
}

// asText is a plain value as JSON.
func asText(v any) string {
	switch v.(type) {
	case map[string]any, []any:
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
