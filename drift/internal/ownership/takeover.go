package ownership

import (
	"maps"
	"slices"
	"strings"
)

// appliers are field managers of tools by which people apply objects, prefixes of names if they
// end in "*". None of them writes on its own: an object that one of them wrote does not change
// until a person applies it again.
var appliers = []string{ //nolint:gochecknoglobals // a constant table
	"kubectl", "kubectl-*", "before-first-apply", // kubectl apply, create, edit, …; kubectl's move to server-side apply
	"helm", "Helm",
	"HashiCorp", "Terraform", "terraform-*", // the providers kubernetes, helm and kubectl
	"pulumi-*",
	"work-api-agent", // KubeFleet's agent on members, which is stopped before its objects are taken over
}

// IsApplier reports whether a field manager is a tool by which people apply objects.
func IsApplier(manager string) bool {
	return slices.ContainsFunc(appliers, func(name string) bool {
		prefix, open := strings.CutSuffix(name, "*")
		return manager == name || open && strings.HasPrefix(manager, prefix)
	})
}

// TakeOver returns managedFields in which the manager alone owns the fields that it applied and
// appliers own too, except the appliers in kept. Fields that the manager wrote without an apply
// become applied ones. If nothing changes, it returns managed itself and false.
func TakeOver(managed []any, manager string, kept []string) ([]any, bool) {
	if len(managed) > MaxEntries {
		return managed, false
	}
	own := -1
	var rest []map[string]any
	for _, raw := range managed {
		e, ok := raw.(map[string]any)
		if !ok {
			return managed, false
		}
		if is(e, manager) && e["operation"] == Apply {
			own = len(rest)
		}
		rest = append(rest, e)
	}
	rest, changed := uniteOwn(rest, own, manager)
	if own < 0 {
		own = slices.IndexFunc(rest, func(e map[string]any) bool { return is(e, manager) && e["operation"] == Apply })
	}
	if own < 0 {
		return managed, false
	}
	mine := rest[own]
	var out []any
	for _, e := range rest {
		name, _ := e["manager"].(string)
		fields, _ := e["fieldsV1"].(map[string]any)
		if !IsApplier(name) || !is(e, name) || slices.Contains(kept, name) || e["apiVersion"] != mine["apiVersion"] {
			out = append(out, e)
			continue
		}
		left, taken := without(fields, mine["fieldsV1"], MaxDepth)
		changed = changed || taken
		if taken {
			e = maps.Clone(e)
			e["fieldsV1"] = left
		}
		if len(left) > 0 {
			out = append(out, e)
		}
	}
	if !changed {
		return managed, false
	}
	return out, true
}

// is reports whether an entry belongs to a manager and is about the object itself, not a
// subresource.
func is(e map[string]any, manager string) bool {
	sub, _ := e["subresource"].(string)
	return e["manager"] == manager && sub == ""
}

// uniteOwn moves the fields that the manager wrote without an apply to the entry of its applies,
// which is at own, or -1.
func uniteOwn(entries []map[string]any, own int, manager string) (out []map[string]any, changed bool) {
	at := slices.IndexFunc(entries, func(e map[string]any) bool {
		return is(e, manager) && e["operation"] != Apply && (own < 0 || e["apiVersion"] == entries[own]["apiVersion"])
	})
	if at < 0 {
		return entries, false
	}
	out = slices.Clone(entries)
	moved := maps.Clone(entries[at])
	moved["operation"] = Apply
	if own < 0 {
		out[at] = moved
		return out, true
	}
	fields, _ := moved["fieldsV1"].(map[string]any)
	applied, _ := entries[own]["fieldsV1"].(map[string]any)
	both := maps.Clone(entries[own])
	both["fieldsV1"] = united(applied, fields, MaxDepth)
	out[own] = both
	return slices.Delete(out, at, at+1), true
}

// united returns the union of two fieldsV1. A field without nested fields is owned itself.
func united(a, b map[string]any, depth int) map[string]any {
	if depth == 0 || len(b) == 0 {
		return a
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range b {
		x, had := out[k].(map[string]any)
		y, _ := v.(map[string]any)
		switch {
		case !had || k == ".":
			out[k] = v
		case len(x) == 0 && len(y) > 0:
			out[k] = united(y, map[string]any{".": map[string]any{}}, depth-1)
		case len(y) == 0 && len(x) > 0:
			out[k] = united(x, map[string]any{".": map[string]any{}}, depth-1)
		default:
			out[k] = united(x, y, depth-1)
		}
	}
	return out
}

// without returns fields without the fields in owned, and whether fields had any of them. An item
// of a list is removed with all of its fields, because a server keeps an item as long as any
// manager owns a field of it, even a default.
func without(fields map[string]any, owned any, depth int) (left map[string]any, taken bool) {
	mine, _ := owned.(map[string]any)
	left = make(map[string]any, len(fields))
	for k, v := range fields {
		below, ok := mine[k].(map[string]any)
		theirs, _ := v.(map[string]any)
		switch whole := len(below) == 0 || k[:1] != "f"; {
		case !ok || depth == 0 || !whole && len(theirs) == 0:
			left[k] = v
		case whole:
			taken = true
		default:
			rest, some := without(theirs, below, depth-1)
			taken = taken || some
			if _, self := rest["."]; len(rest) > 0 && (!some || !self || len(rest) != 1) { // alone it would be the whole map or list
				left[k] = rest
			}
		}
	}
	return left, taken
}
