package kubefleet

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Object is a document that [Read] reads again.
type Object struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        Metadata `json:"metadata"`
	// Spec is a spec of package v1beta1. Status is for people; [Read] ignores it.
	Spec   any `json:"spec,omitempty"`
	Status any `json:"status,omitempty"`
}

// Metadata is the name of an [Object].
type Metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// newObject returns an object of a kind in a namespace, or of its cluster-scoped twin.
func newObject(kind, namespace, name string, spec any) Object {
	return Object{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion().String(), Kind: kind},
		Metadata: Metadata{name, namespace}, Spec: spec,
	}
}

// named returns the namespace and the name of the object with an engine name. The error says that
// no object has the name.
func named(noun, engineName string) (namespace, name string, err error) {
	namespace, name, ok := ObjectName(engineName)
	if !ok {
		return "", "", fmt.Errorf("%s %s has no document, because no object has this name", noun, engineName)
	}
	return namespace, name, nil
}

// ObjectOf returns the document of a placement, with External as its rollout strategy. Overrides
// are documents of their own, see [OverrideObjects]. Fields of the placement that the API does not
// have are omitted. The error says that no document can have the placement's name.
func ObjectOf(p fleet.Placement) (Object, error) {
	namespace, name, err := named("placement", p.Name)
	if err == nil && namespace != p.Namespace {
		err = fmt.Errorf("placement %s has no document, because its namespace is %q", p.Name, p.Namespace)
	}
	if err != nil {
		return Object{}, err
	}
	spec := v1beta1.PlacementSpec{Policy: policyOf(&p.Policy), Strategy: v1beta1.RolloutStrategy{
		Type: v1beta1.ExternalRolloutStrategyType, ApplyStrategy: ApplyStrategyOf(&p),
	}}
	if p.ApplyStrategy.WhenToApply == "" { // the default of a document is another
		spec.Strategy.ApplyStrategy.WhenToApply = ""
	}
	for _, s := range p.Selectors {
		spec.ResourceSelectors = append(spec.ResourceSelectors, v1beta1.ResourceSelectorTerm{
			Group: s.Group, Version: s.Version, Kind: s.Kind, Name: s.Name, LabelSelector: s.LabelSelector, SelectionScope: v1beta1.SelectionScope(s.Scope),
		})
	}
	for _, c := range p.Carry {
		spec.Carry = append(spec.Carry, v1beta1.Carry(c))
	}
	if p.HistoryLimit != 0 {
		spec.RevisionHistoryLimit = new(int32(p.HistoryLimit))
	}
	if p.DeletePolicy != "" {
		spec.Strategy.DeleteStrategy = &v1beta1.DeleteStrategy{PropagationPolicy: v1beta1.DeletePropagationPolicy(p.DeletePolicy)}
	}
	kind := "ClusterResourcePlacement"
	if namespace != "" {
		kind = "ResourcePlacement"
	}
	return newObject(kind, namespace, name, spec), nil
}

// ApplyStrategyOf returns the apply strategy of a placement, with the API's defaults.
func ApplyStrategyOf(p *fleet.Placement) *v1beta1.ApplyStrategy {
	s := p.ApplyStrategy
	if s.Type == "" && s.RefuseConflicts { // only this type refuses
		s.Type = apply.ServerSide
	}
	out := &v1beta1.ApplyStrategy{
		Type:             v1beta1.ApplyStrategyType(cmp.Or(s.Type, apply.ClientSide)),
		ComparisonOption: v1beta1.ComparisonOptionType(cmp.Or(s.ComparisonOption, drift.Partial)),
		WhenToApply:      v1beta1.WhenToApplyType(cmp.Or(s.WhenToApply, apply.Always)),
		WhenToTakeOver:   v1beta1.WhenToTakeOverType(cmp.Or(s.WhenToTakeOver, apply.TakeOverAlways)),
		AllowCoOwnership: p.AllowCoOwnership,
	}
	if out.Type == v1beta1.ApplyStrategyTypeServerSideApply {
		out.ServerSideApplyConfig = &v1beta1.ServerSideApplyConfig{ForceConflicts: !s.RefuseConflicts}
	}
	return out
}

// Declare returns the placement have with the fields of doc, a placement that was read from a
// document. It keeps three things of have: fields that a document cannot have, the overrides, which
// are documents of their own, and fields whose zero value means the same as the value in doc.
func Declare(have, doc fleet.Placement) fleet.Placement {
	out := have
	out.Name, out.Namespace, out.Selectors, out.Carry, out.Policy = doc.Name, doc.Namespace, doc.Selectors, doc.Carry, doc.Policy
	out.HistoryLimit, out.AllowCoOwnership, out.DeletePolicy = doc.HistoryLimit, doc.AllowCoOwnership, doc.DeletePolicy
	a, b, defaults := &out.ApplyStrategy, &doc.ApplyStrategy, defaultApplyStrategy()
	a.WhenToApply, a.RefuseConflicts = b.WhenToApply, b.RefuseConflicts
	a.Type = unlessDefault(have.ApplyStrategy.Type, b.Type, defaults.Type)
	a.ComparisonOption = unlessDefault(have.ApplyStrategy.ComparisonOption, b.ComparisonOption, defaults.ComparisonOption)
	a.WhenToTakeOver = unlessDefault(have.ApplyStrategy.WhenToTakeOver, b.WhenToTakeOver, defaults.WhenToTakeOver)
	if have.Name != "" && have.HistoryLimit == 0 && doc.HistoryLimit == snapshot.DefaultLimit {
		out.HistoryLimit = 0
	}
	return out
}

// unlessDefault returns want, or have if it is zero and want is the default that zero means.
func unlessDefault[T comparable](have, want, otherwise T) T {
	var zero T
	if have == zero && want == otherwise {
		return have
	}
	return want
}

// OverrideObjects returns the documents of the overrides of a placement. Each names the placement,
// because an override of a store belongs to one placement.
func OverrideObjects(p fleet.Placement) ([]Object, error) {
	placed, name, err := named("placement", p.Name)
	if err != nil {
		return nil, err
	}
	var out []Object
	for _, o := range p.Overrides {
		ref := &v1beta1.PlacementRef{Name: name, Scope: v1beta1.ClusterScoped}
		if placed != "" {
			ref.Scope = v1beta1.NamespaceScoped
		}
		if placed != "" && placed != o.Namespace {
			return nil, fmt.Errorf("override %s of placement %s has no document, because it is not in the placement's namespace", o, p.Name)
		}
		policy := &v1beta1.OverridePolicy{OverrideRules: overrideRules(o.Rules)}
		if o.Namespace == "" {
			spec := v1beta1.ClusterResourceOverrideSpec{Priority: o.Priority, Placement: ref, Policy: policy}
			for _, s := range o.Selectors {
				spec.ClusterResourceSelectors = append(spec.ClusterResourceSelectors, v1beta1.ResourceSelectorTerm{Group: s.Group, Version: s.Version, Kind: s.Kind, Name: s.Name})
			}
			out = append(out, newObject("ClusterResourceOverride", "", o.Name, spec))
			continue
		}
		spec := v1beta1.ResourceOverrideSpec{Priority: o.Priority, Placement: ref, Policy: policy}
		for _, s := range o.Selectors {
			spec.ResourceSelectors = append(spec.ResourceSelectors, v1beta1.ResourceSelector(s))
		}
		out = append(out, newObject("ResourceOverride", o.Namespace, o.Name, spec))
	}
	return out, nil
}

func overrideRules(rules []placement.Rule) []v1beta1.OverrideRule {
	out := make([]v1beta1.OverrideRule, len(rules))
	for i, r := range rules {
		out[i].OverrideType = v1beta1.OverrideType(r.Type)
		if r.ClusterSelector != nil {
			terms := []v1beta1.ClusterSelectorTerm{}
			for _, t := range r.ClusterSelector.Terms {
				terms = append(terms, v1beta1.ClusterSelectorTerm{LabelSelector: t.LabelSelector})
			}
			out[i].ClusterSelector = &v1beta1.OverrideClusterSelector{ClusterSelectorTerms: terms}
		}
		for _, p := range r.Patches {
			out[i].JSONPatchOverrides = append(out[i].JSONPatchOverrides, v1beta1.JSONPatchOverride{
				Operator: v1beta1.JSONPatchOverrideOperator(p.Op), Path: p.Path, Value: v1beta1.JSON{Raw: p.Value},
			})
		}
	}
	return out
}

// policyOf returns the policy of a placement; nil for the zero policy.
func policyOf(p *placement.Policy) *v1beta1.PlacementPolicy {
	out := &v1beta1.PlacementPolicy{PlacementType: v1beta1.PlacementType(p.Type), ClusterNames: p.ClusterNames}
	if p.NumberOfClusters != nil {
		out.NumberOfClusters = new(int32(*p.NumberOfClusters))
	}
	if len(p.Required)+len(p.Preferred) > 0 {
		out.Affinity = &v1beta1.Affinity{ClusterAffinity: affinityOf(p)}
	}
	for _, s := range p.Spread {
		c := v1beta1.TopologySpreadConstraint{TopologyKey: s.TopologyKey, WhenUnsatisfiable: v1beta1.UnsatisfiableConstraintAction(s.WhenUnsatisfiable)}
		if s.MaxSkew != 0 {
			c.MaxSkew = new(int32(s.MaxSkew))
		}
		out.TopologySpreadConstraints = append(out.TopologySpreadConstraints, c)
	}
	for _, t := range p.Tolerations {
		out.Tolerations = append(out.Tolerations, v1beta1.Toleration{
			Key: t.Key, Operator: v1beta1.TolerationOperator(t.Operator), Value: t.Value, Effect: v1beta1.TaintEffect(t.Effect),
		})
	}
	if out.PlacementType == "" && out.ClusterNames == nil && out.NumberOfClusters == nil && out.Affinity == nil && out.TopologySpreadConstraints == nil && out.Tolerations == nil {
		return nil
	}
	return out
}

func affinityOf(p *placement.Policy) *v1beta1.ClusterAffinity {
	out := &v1beta1.ClusterAffinity{}
	for i := range p.Required {
		t := &p.Required[i]
		term := v1beta1.ClusterSelectorTerm{}
		if len(t.MatchLabels)+len(t.MatchExpressions) > 0 {
			term.LabelSelector = &t.LabelSelector
		}
		if len(t.Properties) > 0 {
			term.PropertySelector = &v1beta1.PropertySelector{}
			for _, r := range t.Properties {
				term.PropertySelector.MatchExpressions = append(term.PropertySelector.MatchExpressions, v1beta1.PropertySelectorRequirement{
					Name: r.Name, Operator: v1beta1.PropertySelectorOperator(r.Operator), Values: []string{r.Value.String()},
				})
			}
		}
		if out.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			out.RequiredDuringSchedulingIgnoredDuringExecution = &v1beta1.ClusterSelector{}
		}
		terms := &out.RequiredDuringSchedulingIgnoredDuringExecution.ClusterSelectorTerms
		*terms = append(*terms, term)
	}
	for _, f := range p.Preferred {
		term := v1beta1.ClusterSelectorTerm{LabelSelector: f.LabelSelector}
		if f.Sorter != nil {
			term.PropertySorter = &v1beta1.PropertySorter{Name: f.Sorter.Name, SortOrder: v1beta1.PropertySortOrder(f.Sorter.Order)}
		}
		out.PreferredDuringSchedulingIgnoredDuringExecution = append(out.PreferredDuringSchedulingIgnoredDuringExecution,
			v1beta1.PreferredClusterSelector{Weight: int32(f.Weight), Preference: term})
	}
	return out
}

// StrategyObject returns the document of a strategy. Fields that the API does not have are omitted.
// The error says that no document can have the strategy's name.
func StrategyObject(s stages.Strategy) (Object, error) {
	namespace, name, err := named("strategy", s.Name)
	if err != nil {
		return Object{}, err
	}
	return newObject(scoped(namespace, "StagedUpdateStrategy"), namespace, name, StrategySpecOf(&s)), nil
}

// Object returns the document of a run.
func (r Run) Object() Object {
	spec := v1beta1.UpdateRunSpec{PlacementName: r.Placement, StagedUpdateStrategyName: r.StrategyName, State: r.State}
	if r.Index != nil {
		spec.ResourceSnapshotIndex = fmt.Sprint(*r.Index)
	}
	return newObject(scoped(r.Namespace, "StagedUpdateRun"), r.Namespace, r.Name, spec)
}
