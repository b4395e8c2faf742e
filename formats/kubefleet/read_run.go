package kubefleet

import (
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
)

func readRun(d *document, namespaced bool) Run {
	r := Run{Name: d.Name, State: v1beta1.StateRun}
	if namespaced {
		r.Namespace = d.Namespace
	}
	readObject(d, metadata{namespaced: namespaced, name: subdomain}, func(v value) {
		v.Object(fields{
			"placementName":             func(v value) { r.Placement = reference(v) },
			"resourceSnapshotIndex":     func(v value) { r.Index = snapshotIndex(v) },
			"stagedRolloutStrategyName": func(v value) { r.StrategyName = reference(v) },
			"state": func(v value) {
				r.State = yamldoc.OneOf(v, v1beta1.StateInitialize, v1beta1.StateRun, v1beta1.StateStop, v1beta1.StateRollback)
			},
		}, "placementName", "stagedRolloutStrategyName")
	}, "spec")
	return r
}

// reference reads the name of another document.
func reference(v value) string {
	subdomain(v)
	return v.Node.Value
}

// snapshotIndex reads an index. An empty index means the newest snapshot.
func snapshotIndex(v value) *int {
	s := v.Str()
	if s == "" {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 || s[0] == '+' {
		v.Fail(`%q must be an integer of at least 0 in quotes, such as "0"; leave it out for the newest`, yamldoc.Clip(s))
		return nil
	}
	index := int(n)
	return &index
}

func readOverride(d *document, namespaced bool) Override {
	selectors := "clusterResourceSelectors"
	o := Override{Override: placement.Override{Name: d.Name}}
	if namespaced {
		selectors, o.Namespace = "resourceSelectors", d.Namespace
	}
	readObject(d, metadata{namespaced: namespaced}, func(v value) {
		v.Object(fields{
			"priority":  func(v value) { o.Priority = v.Int32() },
			"placement": func(v value) { overridePlacement(v, &o) },
			selectors: func(v value) {
				o.Selectors = yamldoc.List(v, objectSelector)
			},
			"policy": func(v value) {
				v.Object(fields{"overrideRules": func(v value) {
					o.Rules = yamldoc.List(v, rule)
				}}, "overrideRules")
			},
		}, selectors, "policy")
	}, "spec")
	d.Root().Check(o.Validate(), func(noun string) string { return overridePath(noun, selectors) })
	return o
}

// overridePath returns the path in the document of a field of placement.Override.
func overridePath(noun, selectors string) string {
	if rest, ok := strings.CutPrefix(noun, "resourceSelectors"); ok {
		return "spec." + selectors + rest
	}
	if strings.HasPrefix(noun, "overrideRules") {
		return "spec.policy." + noun
	}
	return "metadata." + noun
}

// overridePlacement reads the placement that an override names.
func overridePlacement(v value, o *Override) {
	o.AnyScope = o.Namespace != ""
	scope := func(v value) {
		o.AnyScope = false
		if yamldoc.OneOf(v, v1beta1.ClusterScoped, v1beta1.NamespaceScoped) != v1beta1.NamespaceScoped {
			return
		}
		if o.PlacementNamespace = o.Namespace; o.Namespace == "" {
			v.Fail("%s is for a ResourceOverride in the namespace of the placement; write %s", v1beta1.NamespaceScoped, v1beta1.ClusterScoped)
		}
	}
	v.Object(fields{"name": func(v value) { o.Placement = reference(v) }, "scope": scope}, "name")
}

func objectSelector(v value) placement.ObjectSelector {
	var s placement.ObjectSelector
	v.Object(fields{
		"group":         func(v value) { s.Group = v.Str() },
		"version":       func(v value) { s.Version = v.Str() },
		"kind":          func(v value) { s.Kind = v.Str() },
		"name":          func(v value) { s.Name = v.Str() },
		"labelSelector": func(v value) { v.Fail("an override selects by name; write name instead") },
		"selectionScope": func(v value) {
			if scope := selectionScope(v); scope != "" {
				v.Fail("an override of a Namespace changes everything in it, in KubeFleet whatever the scope is; leave %s out", scope)
			}
		},
	}, "version", "kind", "name")
	return s
}

func rule(v value) placement.Rule {
	var r placement.Rule
	v.Object(fields{
		"clusterSelector":    func(v value) { r.ClusterSelector = clusterSelector(v) },
		"overrideType":       func(v value) { r.Type = yamldoc.OneOf(v, placement.JSONPatch, placement.Delete) },
		"jsonPatchOverrides": func(v value) { r.Patches = yamldoc.List(v, patch) },
	})
	return r
}

func clusterSelector(v value) *placement.ClusterSelector {
	s := &placement.ClusterSelector{}
	term := func(v value) {
		var t placement.ClusterTerm
		v.Object(fields{
			"labelSelector":    func(v value) { t.LabelSelector = labelSelector(v) },
			"propertySelector": byLabelsOnly,
			"propertySorter":   byLabelsOnly,
		})
		s.Terms = append(s.Terms, t)
	}
	v.Object(fields{"clusterSelectorTerms": func(v value) { v.Each(term) }})
	return s
}

func byLabelsOnly(v value) {
	v.Fail("an override selects clusters by labelSelector only; leave it out")
}

// patch reads an operation. Its value may be null, which differs from no value.
func patch(v value) placement.Patch {
	var p placement.Patch
	v.Object(fields{
		"op":    func(v value) { p.Op = placement.PatchOp(yamldoc.OneOf(v, "add", "remove", "replace")) },
		"path":  func(v value) { p.Path = v.Str() },
		"value": yamldoc.Ignore,
	}, "op", "path")
	if x, ok := v.Field("value"); ok {
		p.Value = x.JSON()
	}
	return p
}
