package kubefleet

import (
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/placement"
)

func (d *document) run(namespaced bool) Run {
	r := Run{Name: d.name, State: RunState}
	if namespaced {
		r.Namespace = d.namespace
	}
	d.read(metadata{namespaced: namespaced, name: value.subdomain}, func(v value) {
		v.object(fields{
			"placementName":             func(v value) { r.Placement = v.reference() },
			"resourceSnapshotIndex":     func(v value) { r.Index = v.snapshotIndex() },
			"stagedRolloutStrategyName": func(v value) { r.StrategyName = v.reference() },
			"state": func(v value) {
				r.State = State(v.oneOf(string(Initialize), string(RunState), string(Stop), string(Rollback)))
			},
		}, "placementName", "stagedRolloutStrategyName")
	}, "spec")
	return r
}

// reference reads the name of another document.
func (v value) reference() string {
	v.subdomain()
	return v.node.Value
}

// snapshotIndex reads an index; an empty one is the newest.
func (v value) snapshotIndex() *int {
	s := v.str()
	if s == "" {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 || s[0] == '+' {
		v.fail(`%q must be an integer of at least 0 in quotes, such as "0"; leave it out for the newest`, clip(s))
		return nil
	}
	index := int(n)
	return &index
}

func (d *document) override(namespaced bool) Override {
	selectors := "clusterResourceSelectors"
	o := Override{Override: placement.Override{Name: d.name}}
	if namespaced {
		selectors, o.Namespace = "resourceSelectors", d.namespace
	}
	d.read(metadata{namespaced: namespaced}, func(v value) {
		v.object(fields{
			"priority":  func(v value) { o.Priority = v.int32() },
			"placement": func(v value) { o.Placement, o.PlacementNamespace = v.overridePlacement(o.Namespace) },
			selectors: func(v value) {
				v.list(func(v value) { o.Selectors = append(o.Selectors, v.objectSelector()) })
			},
			"policy": func(v value) {
				v.object(fields{"overrideRules": func(v value) {
					v.list(func(v value) { o.Rules = append(o.Rules, v.rule()) })
				}}, "overrideRules")
			},
		}, selectors, "policy")
	}, "spec")
	d.check(o.Validate(), func(noun string) string { return overridePath(noun, selectors) })
	return o
}

// overridePath is where a field of placement.Override stands.
func overridePath(noun, selectors string) string {
	if rest, ok := strings.CutPrefix(noun, "resourceSelectors"); ok {
		return "spec." + selectors + rest
	}
	if strings.HasPrefix(noun, "overrideRules") {
		return "spec.policy." + noun
	}
	return "metadata." + noun
}

// overridePlacement reads the placement that an override in a namespace, or in
// none, is for.
func (v value) overridePlacement(own string) (name, namespace string) {
	scope := func(v value) {
		if v.oneOf(clusterScope, namespacedScope) != namespacedScope {
			return
		}
		if namespace = own; own == "" {
			v.fail("%s is for a ResourceOverride in the namespace of the placement; write %s", namespacedScope, clusterScope)
		}
	}
	v.object(fields{"name": func(v value) { name = v.reference() }, "scope": scope}, "name")
	return name, namespace
}

// The scopes of the placement that an override is for.
const (
	clusterScope    = "Cluster"
	namespacedScope = "Namespaced"
)

func (v value) objectSelector() placement.ObjectSelector {
	var s placement.ObjectSelector
	v.object(fields{
		"group":         func(v value) { s.Group = v.str() },
		"version":       func(v value) { s.Version = v.str() },
		"kind":          func(v value) { s.Kind = v.str() },
		"name":          func(v value) { s.Name = v.str() },
		"labelSelector": func(v value) { v.fail("an override selects by name; write name instead") },
		"selectionScope": func(v value) {
			v.supported([]string{"NamespaceWithResources"}, []string{"NamespaceOnly", "NamespaceWithResourceSelectors"})
		},
	}, "version", "kind", "name")
	return s
}

func (v value) rule() placement.Rule {
	var r placement.Rule
	v.object(fields{
		"clusterSelector": func(v value) { r.ClusterSelector = v.clusterSelector() },
		"overrideType": func(v value) {
			r.Type = placement.RuleType(v.oneOf(string(placement.JSONPatch), string(placement.Delete)))
		},
		"jsonPatchOverrides": func(v value) { v.list(func(v value) { r.Patches = append(r.Patches, v.patch()) }) },
	})
	return r
}

func (v value) clusterSelector() *placement.ClusterSelector {
	s := &placement.ClusterSelector{}
	term := func(v value) {
		var t placement.ClusterTerm
		v.object(fields{
			"labelSelector":    func(v value) { t.LabelSelector = v.labelSelector() },
			"propertySelector": byLabelsOnly,
			"propertySorter":   byLabelsOnly,
		})
		s.Terms = append(s.Terms, t)
	}
	v.object(fields{"clusterSelectorTerms": func(v value) { v.list(term) }})
	return s
}

func byLabelsOnly(v value) {
	v.fail("an override selects clusters by labelSelector only; leave it out")
}

// patch reads an operation. Its value may be null, which is not the same as
// none.
func (v value) patch() placement.Patch {
	var p placement.Patch
	v.object(fields{
		"op":    func(v value) { p.Op = placement.PatchOp(v.oneOf("add", "remove", "replace")) },
		"path":  func(v value) { p.Path = v.str() },
		"value": ignore,
	}, "op", "path")
	if x, ok := v.get("value"); ok {
		p.Value = x.json()
	}
	return p
}
