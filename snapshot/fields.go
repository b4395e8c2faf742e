package snapshot

import (
	"maps"
	"slices"
)

// prune deletes keys from the map at path below m. It changes m itself, copies the maps on the
// path, and drops the maps that it emptied.
func prune(m map[string]any, path []string, keys ...string) {
	if len(path) == 0 {
		for _, k := range keys {
			delete(m, k)
		}
		return
	}
	child, _ := m[path[0]].(map[string]any)
	if !hasAny(child, path[1:], keys) {
		return
	}
	child = maps.Clone(child)
	prune(child, path[1:], keys...)
	m[path[0]] = child
	if len(child) == 0 {
		delete(m, path[0])
	}
}

// hasAny reports whether the map at path below m has one of keys.
func hasAny(m map[string]any, path, keys []string) bool {
	for _, field := range path {
		m, _ = m[field].(map[string]any)
	}
	return slices.ContainsFunc(keys, func(k string) bool { _, ok := m[k]; return ok })
}

// at returns the value at a path of maps, nil if there is none.
func at(m map[string]any, path []string) any {
	for _, field := range path[:len(path)-1] {
		m, _ = m[field].(map[string]any)
	}
	return m[path[len(path)-1]]
}
