package kubefleet

import (
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
)

// Where the parts of an affinity stand in a placement.
const (
	affinityPath  = "spec.policy.affinity.clusterAffinity."
	requiredField = "requiredDuringSchedulingIgnoredDuringExecution"
	preferField   = "preferredDuringSchedulingIgnoredDuringExecution"
)

func (v value) policy() placement.Policy {
	var p placement.Policy
	v.object(fields{
		"placementType": func(v value) {
			p.Type = placement.Type(v.oneOf(string(placement.PickAll), string(placement.PickFixed), string(placement.PickN)))
		},
		"clusterNames":     func(v value) { p.ClusterNames = v.strings() },
		"numberOfClusters": func(v value) { p.NumberOfClusters = v.count() },
		"affinity":         func(v value) { v.affinity(&p) },
		"topologySpreadConstraints": func(v value) {
			v.list(func(v value) { p.Spread = append(p.Spread, v.spread()) })
		},
		"tolerations": func(v value) {
			v.list(func(v value) { p.Tolerations = append(p.Tolerations, v.toleration()) })
		},
	})
	return p
}

// count reads a number of clusters; whether it fits the policy is not its
// concern.
func (v value) count() *int {
	if n := int(v.int32()); !v.doc.broken[v.path] {
		return &n
	}
	return nil
}

func (v value) affinity(p *placement.Policy) {
	required := func(v value) {
		v.object(fields{"clusterSelectorTerms": func(v value) {
			v.list(func(v value) { p.Required = append(p.Required, v.requiredTerm()) })
		}}, "clusterSelectorTerms")
	}
	v.object(fields{"clusterAffinity": func(v value) {
		v.object(fields{
			requiredField: required,
			preferField:   func(v value) { v.list(func(v value) { p.Preferred = append(p.Preferred, v.preference()) }) },
		})
	}})
}

// requiredTerm reads a term; one that asks for nothing matches every cluster,
// like an empty selector.
func (v value) requiredTerm() placement.Term {
	var t placement.Term
	v.object(fields{
		"labelSelector":    func(v value) { t.LabelSelector = *v.labelSelector() },
		"propertySelector": func(v value) { t.Properties = v.propertySelector() },
		"propertySorter":   func(v value) { v.fail("is for preferred terms; a required one has a propertySelector") },
	})
	return t
}

func (v value) propertySelector() []placement.PropertyRequirement {
	var list []placement.PropertyRequirement
	v.object(fields{"matchExpressions": func(v value) {
		v.list(func(v value) { list = append(list, v.propertyRequirement()) })
	}}, "matchExpressions")
	return list
}

func (v value) propertyRequirement() placement.PropertyRequirement {
	var r placement.PropertyRequirement
	v.object(fields{
		"name":     func(v value) { r.Name = v.propertyName() },
		"operator": func(v value) { r.Operator = placement.PropertyOperator(v.str()) },
		"values": func(v value) {
			v.list(func(v value) { r.Value = v.quantity() })
			if n := len(v.node.Content); v.node.Kind == yaml.SequenceNode && n != 1 {
				v.fail("must be exactly one value, not %d", n)
			}
		},
	}, "name", "operator", "values")
	return r
}

// resourceProperties is what the names of the properties that tell of resources
// begin with.
const resourceProperties = "resources.kubernetes-fleet.io/"

// propertyName reads the name of a property. One of a resource says of which
// part of it.
func (v value) propertyName() string {
	name := v.str()
	rest, ok := strings.CutPrefix(name, resourceProperties)
	if !ok {
		return name
	}
	switch capacity, of, found := strings.Cut(rest, "-"); {
	case !found || of == "":
		v.fail("%q must be %s[CAPACITY_TYPE]-[RESOURCE_NAME]", clip(name), resourceProperties)
	case capacity != "allocatable" && capacity != "available" && capacity != "total":
		v.fail("the capacity type must be allocatable, available or total, not %q", clip(capacity))
	}
	return name
}

func (v value) quantity() resource.Quantity {
	s := v.str()
	if v.doc.broken[v.path] {
		return resource.Quantity{}
	}
	q, err := placement.ParseQuantity(s)
	if err != nil {
		v.fail("%q is not a quantity; write a number such as 5, 0.5, 500m or 16Gi", clip(s))
	}
	return q
}

// preference reads a preferred term; one that asks for nothing is one for every
// cluster.
func (v value) preference() placement.Preference {
	var p placement.Preference
	v.object(fields{
		"weight": func(v value) { p.Weight = int(v.int32()) },
		"preference": func(v value) {
			v.object(fields{
				"labelSelector":    func(v value) { p.LabelSelector = v.labelSelector() },
				"propertySorter":   func(v value) { p.Sorter = v.propertySorter() },
				"propertySelector": func(v value) { v.fail("is for required terms; a preferred one has a propertySorter") },
			})
		},
	}, "weight", "preference")
	if p.LabelSelector == nil && p.Sorter == nil {
		p.LabelSelector = &metav1.LabelSelector{}
	}
	return p
}

func (v value) propertySorter() *placement.PropertySorter {
	s := &placement.PropertySorter{}
	v.object(fields{
		"name":      func(v value) { s.Name = v.propertyName() },
		"sortOrder": func(v value) { s.Order = placement.SortOrder(v.str()) },
	}, "name", "sortOrder")
	return s
}

func (v value) spread() placement.SpreadConstraint {
	var s placement.SpreadConstraint
	v.object(fields{
		"maxSkew": func(v value) {
			if s.MaxSkew = int(v.int32()); s.MaxSkew < 1 && !v.doc.broken[v.path] {
				v.fail("must be at least 1, not %d", s.MaxSkew)
			}
		},
		"topologyKey":       func(v value) { s.TopologyKey = v.str() },
		"whenUnsatisfiable": func(v value) { s.WhenUnsatisfiable = placement.WhenUnsatisfiable(v.str()) },
	}, "topologyKey")
	return s
}

func (v value) toleration() placement.Toleration {
	var t placement.Toleration
	v.object(fields{
		"key":      func(v value) { t.Key = v.str() },
		"operator": func(v value) { t.Operator = placement.TolerationOperator(v.str()) },
		"value":    func(v value) { t.Value = v.str() },
		"effect":   func(v value) { t.Effect = placement.TaintEffect(v.str()) },
	})
	return t
}

// policyPath is where a field of placement.Policy stands.
func policyPath(noun string) string {
	list, rest, listed := strings.Cut(noun, "[")
	index, inner, _ := strings.Cut(rest, "]")
	if listed {
		index = "[" + index + "]"
	}
	switch list {
	case "required":
		terms := affinityPath + requiredField
		if listed {
			terms += ".clusterSelectorTerms"
		}
		return terms + index + termPath(inner)
	case "preferred":
		return affinityPath + preferField + index + preferencePath(inner)
	}
	return "spec.policy." + noun
}

// termPath is where a field of a placement.Term stands.
func termPath(inner string) string {
	if rest, ok := strings.CutPrefix(inner, ".properties"); ok {
		return ".propertySelector.matchExpressions" + rest
	}
	if inner == "" {
		return ""
	}
	return ".labelSelector" + inner
}

// preferencePath is where a field of a placement.Preference stands.
func preferencePath(inner string) string {
	switch {
	case inner == ".sorter.order":
		return ".preference.propertySorter.sortOrder"
	case strings.HasPrefix(inner, ".sorter"):
		return ".preference.propertySorter" + strings.TrimPrefix(inner, ".sorter")
	case strings.HasPrefix(inner, ".labelSelector"):
		return ".preference" + inner
	}
	return inner
}
