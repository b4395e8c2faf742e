package kubefleet

import (
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
)

// The paths of the parts of an affinity in a placement.
const (
	affinityPath  = "spec.policy.affinity.clusterAffinity."
	requiredField = "requiredDuringSchedulingIgnoredDuringExecution"
	preferField   = "preferredDuringSchedulingIgnoredDuringExecution"
)

func policy(v value) placement.Policy {
	var p placement.Policy
	v.Object(fields{
		"placementType":    func(v value) { p.Type = yamldoc.OneOf(v, placement.PickAll, placement.PickFixed, placement.PickN) },
		"clusterNames":     func(v value) { p.ClusterNames = v.Strings() },
		"numberOfClusters": func(v value) { p.NumberOfClusters = count(v) },
		"affinity":         func(v value) { affinity(v, &p) },
		"topologySpreadConstraints": func(v value) {
			p.Spread = yamldoc.List(v, spread)
		},
		"tolerations": func(v value) {
			p.Tolerations = yamldoc.List(v, toleration)
		},
	})
	return p
}

// count reads a number of clusters. It does not check whether the number fits the policy.
func count(v value) *int {
	if n := int(v.Int32()); v.OK() {
		return &n
	}
	return nil
}

func affinity(v value, p *placement.Policy) {
	required := func(v value) {
		v.Object(fields{"clusterSelectorTerms": func(v value) {
			p.Required = yamldoc.List(v, requiredTerm)
		}}, "clusterSelectorTerms")
	}
	v.Object(fields{"clusterAffinity": func(v value) {
		v.Object(fields{
			requiredField: required,
			preferField:   func(v value) { p.Preferred = yamldoc.List(v, preference) },
		})
	}})
}

// requiredTerm reads a term. A term without conditions matches every cluster, like an empty
// selector.
func requiredTerm(v value) placement.Term {
	var t placement.Term
	v.Object(fields{
		"labelSelector":    func(v value) { t.LabelSelector = *labelSelector(v) },
		"propertySelector": func(v value) { t.Properties = propertySelector(v) },
		"propertySorter":   func(v value) { v.Fail("is for preferred terms; a required one has a propertySelector") },
	})
	return t
}

func propertySelector(v value) []placement.PropertyRequirement {
	var list []placement.PropertyRequirement
	v.Object(fields{"matchExpressions": func(v value) {
		list = yamldoc.List(v, propertyRequirement)
	}}, "matchExpressions")
	return list
}

func propertyRequirement(v value) placement.PropertyRequirement {
	var r placement.PropertyRequirement
	v.Object(fields{
		"name":     func(v value) { r.Name = propertyName(v) },
		"operator": func(v value) { r.Operator = placement.PropertyOperator(v.Str()) },
		"values": func(v value) {
			v.Each(func(v value) { r.Value = quantity(v) })
			if n := len(v.Node.Content); v.Node.Kind == yaml.SequenceNode && n != 1 {
				v.Fail("must be exactly one value, not %d", n)
			}
		},
	}, "name", "operator", "values")
	return r
}

// resourceProperties is the prefix of the names of resource properties.
const resourceProperties = "resources.kubernetes-fleet.io/"

// propertyName reads the name of a property. The name of a resource property must contain its
// capacity type.
func propertyName(v value) string {
	name := v.Str()
	rest, ok := strings.CutPrefix(name, resourceProperties)
	if !ok {
		return name
	}
	switch capacity, of, found := strings.Cut(rest, "-"); {
	case !found || of == "":
		v.Fail("%q must be %s[CAPACITY_TYPE]-[RESOURCE_NAME]", yamldoc.Clip(name), resourceProperties)
	case capacity != "allocatable" && capacity != "available" && capacity != "total":
		v.Fail("the capacity type must be allocatable, available or total, not %q", yamldoc.Clip(capacity))
	}
	return name
}

func quantity(v value) resource.Quantity {
	s := v.Str()
	if !v.OK() {
		return resource.Quantity{}
	}
	q, err := placement.ParseQuantity(s)
	if err != nil {
		v.Fail("%q is not a quantity; write a number such as 5, 0.5, 500m or 16Gi", yamldoc.Clip(s))
	}
	return q
}

// preference reads a preferred term. A term without conditions matches every cluster.
func preference(v value) placement.Preference {
	var p placement.Preference
	v.Object(fields{
		"weight": func(v value) { p.Weight = int(v.Int32()) },
		"preference": func(v value) {
			v.Object(fields{
				"labelSelector":    func(v value) { p.LabelSelector = labelSelector(v) },
				"propertySorter":   func(v value) { p.Sorter = propertySorter(v) },
				"propertySelector": func(v value) { v.Fail("is for required terms; a preferred one has a propertySorter") },
			})
		},
	}, "weight", "preference")
	if p.LabelSelector == nil && p.Sorter == nil {
		p.LabelSelector = &metav1.LabelSelector{}
	}
	return p
}

func propertySorter(v value) *placement.PropertySorter {
	s := &placement.PropertySorter{}
	v.Object(fields{
		"name":      func(v value) { s.Name = propertyName(v) },
		"sortOrder": func(v value) { s.Order = placement.SortOrder(v.Str()) },
	}, "name", "sortOrder")
	return s
}

func spread(v value) placement.SpreadConstraint {
	var s placement.SpreadConstraint
	v.Object(fields{
		"maxSkew":           func(v value) { s.MaxSkew = v.AtLeast(1) },
		"topologyKey":       func(v value) { s.TopologyKey = v.Str() },
		"whenUnsatisfiable": func(v value) { s.WhenUnsatisfiable = placement.WhenUnsatisfiable(v.Str()) },
	}, "topologyKey")
	return s
}

func toleration(v value) placement.Toleration {
	var t placement.Toleration
	v.Object(fields{
		"key":      func(v value) { t.Key = v.Str() },
		"operator": func(v value) { t.Operator = placement.TolerationOperator(v.Str()) },
		"value":    func(v value) { t.Value = v.Str() },
		"effect":   func(v value) { t.Effect = placement.TaintEffect(v.Str()) },
	})
	return t
}

// policyPath returns the path in the document of a field of placement.Policy.
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

// termPath returns the path in the document of a field of a placement.Term.
func termPath(inner string) string {
	if rest, ok := strings.CutPrefix(inner, ".properties"); ok {
		return ".propertySelector.matchExpressions" + rest
	}
	if inner == "" {
		return ""
	}
	return ".labelSelector" + inner
}

// preferencePath returns the path in the document of a field of a placement.Preference.
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
