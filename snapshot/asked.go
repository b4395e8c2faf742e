package snapshot

import (
	"encoding/json"
	"slices"
	"strings"
)

// answer says whether the user requested the value of a field of an object of the hub.
type answer int

const (
	// unclear is the answer if the field's manager also owns defaults that the API server filled in.
	unclear answer = iota
	asked
	notAsked
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// askedFor reports whether the user requested the value of the field at path, by the records of
// the API server:
//
//   - an object without managedFields comes from no server: its author wrote every field;
//   - kubectl's annotation of the last client-side apply contains the requested fields;
//   - the managers of server-side applies own the fields that they request, and no defaults;
//   - other writers own the defaults of an object that they create, so that their field is
//     unclear.
//
// A field that no manager owns is a default. Replicas that an autoscaler of the hub wrote, and
// the status, are not requested.
func askedFor(meta map[string]any, path []string) answer {
	entries, _ := meta["managedFields"].([]any)
	if len(entries) == 0 || appliedByKubectl(meta, path) {
		return asked
	}
	answer := notAsked
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		fields, _ := entry["fieldsV1"].(map[string]any)
		switch {
		case !ownsField(fields, path) || ofController(entry) || ownsField(fields, []string{"metadata", "annotations", lastApplied}):
		case entry["operation"] == any("Apply"), text(entry, "subresource") == "scale":
			return asked
		default:
			answer = unclear
		}
	}
	return answer
}

// askedExplicitly reports whether an apply requested the field at path. Other writers may be
// controllers.
func askedExplicitly(meta map[string]any, path []string) bool {
	if appliedByKubectl(meta, path) {
		return true
	}
	entries, _ := meta["managedFields"].([]any)
	return slices.ContainsFunc(entries, func(e any) bool {
		entry, _ := e.(map[string]any)
		fields, _ := entry["fieldsV1"].(map[string]any)
		return entry["operation"] == any("Apply") && ownsField(fields, path)
	})
}

// appliedByKubectl reports whether the last client-side apply of kubectl had the field at path.
func appliedByKubectl(meta map[string]any, path []string) bool {
	annotations, _ := meta["annotations"].(map[string]any)
	document := text(annotations, lastApplied)
	if document == "" {
		return false
	}
	var obj map[string]any
	if json.Unmarshal([]byte(document), &obj) != nil {
		return false
	}
	return hasAny(obj, path[:len(path)-1], path[len(path)-1:])
}

// ownsField reports whether a set of managedFields contains the field at path.
func ownsField(fields map[string]any, path []string) bool {
	for _, name := range path {
		next, ok := fields["f:"+name].(map[string]any)
		if !ok {
			return false
		}
		fields = next
	}
	return true
}

// ofController reports whether an entry of managedFields belongs to a controller of Kubernetes,
// or to a write of the status.
func ofController(entry map[string]any) bool {
	return text(entry, "subresource") == "status" || text(entry, "manager") == "kube-controller-manager"
}

// madeByHand reports whether a person or a deployment tool wrote the object, and not only
// controllers of Kubernetes: managedFields have an apply, or a writer named like kubectl.
func madeByHand(meta map[string]any) bool {
	annotations, _ := meta["annotations"].(map[string]any)
	if text(annotations, lastApplied) != "" {
		return true
	}
	entries, _ := meta["managedFields"].([]any)
	return slices.ContainsFunc(entries, func(e any) bool {
		entry, _ := e.(map[string]any)
		fields, _ := entry["fieldsV1"].(map[string]any)
		_, spec := fields["f:spec"]
		return spec && !ofController(entry) && (entry["operation"] == any("Apply") || strings.HasPrefix(text(entry, "manager"), "kubectl"))
	})
}
