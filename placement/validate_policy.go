package placement

import (
	"cmp"
	"fmt"
	"slices"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxWeight = 100

// Validate returns all problems of the policy, or nil. The error is an
// [k8s.io/apimachinery/pkg/util/errors.Aggregate] of *[field.Error].
func (p Policy) Validate() error {
	errs := p.validateType()
	errs = append(errs, validateNames(p.ClusterNames, field.NewPath("clusterNames"))...)
	for i := range p.Required {
		errs = append(errs, p.Required[i].validate(field.NewPath("required").Index(i))...)
	}
	for i, pref := range p.Preferred {
		errs = append(errs, pref.validate(field.NewPath("preferred").Index(i))...)
	}
	errs = append(errs, validateSpread(p.Spread, field.NewPath("topologySpreadConstraints"))...)
	errs = append(errs, validateTolerations(p.Tolerations, field.NewPath("tolerations"))...)
	return errs.ToAggregate()
}

// validateType checks the type and that it allows the fields that are set.
func (p Policy) validateType() field.ErrorList {
	types := []Type{PickAll, PickFixed, PickN}
	of := cmp.Or(p.Type, PickAll)
	if !slices.Contains(types, of) {
		return field.ErrorList{field.NotSupported(field.NewPath("placementType"), p.Type, types)}
	}
	var errs field.ErrorList
	for _, part := range p.parts() {
		if part.given && !slices.Contains(part.types, of) {
			errs = append(errs, field.Forbidden(field.NewPath(part.name), part.rule))
		}
	}
	number := field.NewPath("numberOfClusters")
	switch {
	case of == PickN && p.NumberOfClusters == nil:
		errs = append(errs, field.Required(number, "a PickN policy says how many clusters it picks"))
	case of == PickN && *p.NumberOfClusters < 0:
		errs = append(errs, field.Invalid(number, *p.NumberOfClusters, "must be 0 or more"))
	}
	return errs
}

// part is a field that not every type of policy has.
type part struct {
	name  string
	given bool
	types []Type
	rule  string
}

func (p Policy) parts() []part {
	fixed, number, match := []Type{PickFixed}, []Type{PickN}, []Type{PickAll, PickN}
	const only = "only a PickN policy has this"
	return []part{
		{"clusterNames", len(p.ClusterNames) > 0, fixed, "only a PickFixed policy names clusters"},
		{"numberOfClusters", p.NumberOfClusters != nil, number, only},
		{"required", len(p.Required) > 0, match, "a PickFixed policy does not select clusters by label or property"},
		{"preferred", len(p.Preferred) > 0, number, only},
		{"topologySpreadConstraints", len(p.Spread) > 0, number, only},
		{"tolerations", len(p.Tolerations) > 0, match, "taints do not keep a PickFixed policy away"},
	}
}

func (t *Term) validate(path *field.Path) field.ErrorList {
	errs := validateSelector(&t.LabelSelector, path)
	operators := []PropertyOperator{Gt, Ge, Eq, Ne, Lt, Le}
	for i, r := range t.Properties {
		at := path.Child("properties").Index(i)
		errs = append(errs, validateKey(r.Name, at.Child("name"))...)
		if !slices.Contains(operators, r.Operator) {
			errs = append(errs, field.NotSupported(at.Child("operator"), r.Operator, operators))
		}
		if !measurable(r.Value) {
			errs = append(errs, field.Invalid(at.Child("value"), field.OmitValueType{}, "is beyond all numbers that a property can be"))
		}
	}
	return errs
}

func (p Preference) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Weight < -maxWeight || p.Weight > maxWeight {
		errs = append(errs, field.Invalid(path.Child("weight"), p.Weight, fmt.Sprintf("must be from -%d to %[1]d", maxWeight)))
	}
	if p.LabelSelector == nil && p.Sorter == nil {
		errs = append(errs, field.Required(path, "a preference has a labelSelector, a sorter, or both"))
	}
	if p.LabelSelector != nil {
		errs = append(errs, validateSelector(p.LabelSelector, path.Child("labelSelector"))...)
	}
	if p.Sorter != nil {
		errs = append(errs, p.Sorter.validate(path.Child("sorter"))...)
	}
	return errs
}

func (s PropertySorter) validate(path *field.Path) field.ErrorList {
	errs := validateKey(s.Name, path.Child("name"))
	if orders := []SortOrder{Ascending, Descending}; !slices.Contains(orders, s.Order) {
		errs = append(errs, field.NotSupported(path.Child("order"), s.Order, orders))
	}
	return errs
}

func validateSpread(constraints []SpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	actions := []WhenUnsatisfiable{DoNotSchedule, ScheduleAnyway}
	seen := sets.New[SpreadConstraint]()
	for i, s := range constraints {
		at := path.Index(i)
		if s.MaxSkew < 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), s.MaxSkew, "must be at least 1, or 0 for 1"))
		}
		errs = append(errs, validateKey(s.TopologyKey, at.Child("topologyKey"))...)
		same := SpreadConstraint{TopologyKey: s.TopologyKey, WhenUnsatisfiable: s.defaulted().WhenUnsatisfiable}
		if seen.Has(same) {
			errs = append(errs, field.Duplicate(at.Child("topologyKey"), clip(s.TopologyKey)))
		}
		seen.Insert(same)
		if !slices.Contains(actions, s.defaulted().WhenUnsatisfiable) {
			errs = append(errs, field.NotSupported(at.Child("whenUnsatisfiable"), s.WhenUnsatisfiable, actions))
		}
	}
	return errs
}

func validateTolerations(tolerations []Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[Toleration]()
	for i, t := range tolerations {
		at := path.Index(i)
		errs = append(errs, t.validate(at)...)
		if seen.Has(t.defaulted()) {
			errs = append(errs, field.Duplicate(at, clip(t.Key)))
		}
		seen.Insert(t.defaulted())
	}
	return errs
}

func (t Toleration) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	operator, value := t.defaulted().Operator, path.Child("value")
	if t.Key != "" {
		errs = append(errs, validateKey(t.Key, path.Child("key"))...)
	} else if operator != Exists {
		errs = append(errs, field.Required(path.Child("key"), "a toleration of every key has the operator Exists"))
	}
	switch operator {
	case Exists:
		if t.Value != "" {
			errs = append(errs, field.Forbidden(value, "the operator Exists tolerates every value"))
		}
	case Equal:
		for _, msg := range validation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(value, clip(t.Value), msg))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator, []TolerationOperator{Equal, Exists}))
	}
	if t.Effect != "" && t.Effect != NoSchedule {
		errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect, []TaintEffect{NoSchedule}))
	}
	return errs
}

// validateKey checks that a name has the form of the key of a label.
func validateKey(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "must be a name like the key of a label")}
	}
	return metav1validation.ValidateLabelName(name, path)
}
