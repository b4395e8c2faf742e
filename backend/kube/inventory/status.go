package inventory

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/placement"
)

// Limits of the data in a status, because members write some of it themselves.
const (
	mostProperties = placement.MaxProperties
	mostTaints     = placement.MaxTaints
	mostWords      = placement.MaxUnhealthy
)

// resourceProperties is the prefix of properties that are amounts of resources.
const resourceProperties = "resources.kubernetes-fleet.io/"

// measurements are properties of a cluster by name.
type measurements map[string]resource.Quantity

// add adds a valid property. It ignores others, because properties are optional.
func (m measurements) add(name string, value any) {
	if n, ok := value.(int64); ok && isProperty(name) && len(m) < mostProperties {
		m[name] = *resource.NewQuantity(n, resource.DecimalSI)
		return
	}
	text, ok := value.(string)
	if !ok || !isProperty(name) || len(m) >= mostProperties {
		return
	}
	if q, err := placement.ParseQuantity(text); err == nil {
		m[name] = q
	}
}

func isProperty(name string) bool { return len(validation.IsQualifiedName(name)) == 0 }

// memberProperties are the properties that a MemberCluster reports.
func memberProperties(u *unstructured.Unstructured) measurements {
	m := measurements{}
	for _, part := range []struct{ field, prefix string }{
		{"capacity", "total-"}, {"allocatable", "allocatable-"}, {"available", "available-"},
	} {
		amounts := nested(u.Object, "status", "resourceUsage", part.field)
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			m.add(resourceProperties+part.prefix+name, amounts[name])
		}
	}
	properties := nested(u.Object, "status", "properties")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		m.add(name, p["value"])
	}
	return m
}

// memberNamespaces are the namespaces of a MemberCluster, ascending, nil if they are not
// collected.
func memberNamespaces(u *unstructured.Unstructured) []string {
	if conditionsOf(u.Object, "status", "conditions")["NamespaceCollectionSucceeded"] == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(nested(u.Object, "status", "namespaces")))
	return append([]string{}, names...)
}

// taintsOf are the taints of a MemberCluster.
func taintsOf(u *unstructured.Unstructured) (out []placement.Taint) {
	for _, t := range maplists(u.Object, "spec", "taints") {
		key, _ := t["key"].(string)
		value, _ := t["value"].(string)
		effect, _ := t["effect"].(string)
		if key != "" && len(out) < mostTaints {
			out = append(out, placement.Taint{Key: key, Value: value, Effect: placement.TaintEffect(effect)})
		}
	}
	return out
}

// conditionsOf are the conditions at a path, by type.
func conditionsOf(object map[string]any, path ...string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, c := range maplists(object, path...) {
		kind, _ := c["type"].(string)
		out[kind] = c
	}
	return out
}

// distrust notes that a cluster is unhealthy if a condition of one of the types has been False
// for the duration lasts; zero means at once. It does not repeat the condition's message, because
// that may differ each time.
func (r *registration) distrust(conditions map[string]map[string]any, lasts time.Duration, types ...string) {
	for _, t := range types {
		c := conditions[t]
		if c["status"] != "False" {
			continue
		}
		why := "its condition " + t + " is False"
		if reason, _ := c["reason"].(string); reason != "" {
			why += ": " + reason
		}
		if len(why) > mostWords {
			why = strings.ToValidUTF8(why[:mostWords], "") + "..."
		}
		a := problem{why: why}
		since, _ := c["lastTransitionTime"].(string)
		if at, err := time.Parse(time.RFC3339, since); err == nil && lasts > 0 {
			a.from = at.Add(lasts)
		}
		r.problems = append(r.problems, a)
	}
}

// nested returns an object in an object; nil if there is none.
func nested(object map[string]any, path ...string) map[string]any {
	for _, field := range path {
		object, _ = object[field].(map[string]any)
	}
	return object
}

// maplists returns the elements of a list that are objects.
func maplists(object map[string]any, path ...string) (out []map[string]any) {
	last := len(path) - 1
	list, _ := nested(object, path[:last]...)[path[last]].([]any)
	for _, one := range list {
		if m, ok := one.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
