package kubefleet

import (
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
)

// policyTree is the policy in KubeFleet's words, without what is empty.
func policyTree(p placement.Policy) map[string]any {
	tree := map[string]any{}
	if p.Type != "" {
		tree["placementType"] = string(p.Type)
	}
	if p.NumberOfClusters != nil {
		tree["numberOfClusters"] = int64(*p.NumberOfClusters)
	}
	if affinity := affinityTree(p); len(affinity) > 0 {
		tree["affinity"] = map[string]any{"clusterAffinity": affinity}
	}
	for name, list := range map[string][]any{
		"clusterNames": trees(p.ClusterNames), "topologySpreadConstraints": trees(p.Spread), "tolerations": trees(p.Tolerations),
	} {
		if len(list) > 0 {
			tree[name] = list
		}
	}
	return tree
}

// trees are the trees of things whose JSON is KubeFleet's.
func trees[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = yamldoc.Plain(list[i])
	}
	return out
}

func affinityTree(p placement.Policy) map[string]any {
	tree := map[string]any{}
	if len(p.Required) > 0 {
		terms := make([]any, len(p.Required))
		for i, t := range p.Required {
			terms[i] = termTree(t)
		}
		tree[requiredField] = map[string]any{"clusterSelectorTerms": terms}
	}
	if len(p.Preferred) > 0 {
		preferred := make([]any, len(p.Preferred))
		for i, pref := range p.Preferred {
			preferred[i] = map[string]any{"weight": int64(pref.Weight), "preference": preferenceTree(pref)}
		}
		tree[preferField] = preferred
	}
	return tree
}

func termTree(t placement.Term) map[string]any {
	tree := map[string]any{}
	if len(t.MatchLabels)+len(t.MatchExpressions) > 0 || len(t.Properties) == 0 {
		tree["labelSelector"] = selectorTree(&t.LabelSelector)
	}
	if len(t.Properties) > 0 {
		expressions := make([]any, len(t.Properties))
		for i, r := range t.Properties {
			expressions[i] = map[string]any{"name": r.Name, "operator": string(r.Operator), "values": []any{yamldoc.Plain(r.Value)}}
		}
		tree["propertySelector"] = map[string]any{"matchExpressions": expressions}
	}
	return tree
}

func preferenceTree(p placement.Preference) map[string]any {
	tree := map[string]any{}
	if p.LabelSelector != nil {
		tree["labelSelector"] = selectorTree(p.LabelSelector)
	}
	if p.Sorter != nil {
		tree["propertySorter"] = map[string]any{"name": p.Sorter.Name, "sortOrder": string(p.Sorter.Order)}
	}
	return tree
}
