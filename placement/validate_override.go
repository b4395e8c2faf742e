package placement

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of an override are KubeFleet's.
const (
	maxSelectors = 20
	maxRules     = 20
	maxPatches   = 20
)

// Validate returns all problems of the override, or nil. The error is an
// [k8s.io/apimachinery/pkg/util/errors.Aggregate] of *[field.Error].
func (o Override) Validate() error {
	return append(o.problems(), o.excess()...).ToAggregate()
}

// problems returns the errors that make the effect of the override ambiguous or impossible.
func (o Override) problems() field.ErrorList {
	errs := validateName(o.Name, field.NewPath("name"))
	if o.Namespace != "" {
		errs = append(errs, validateName(o.Namespace, field.NewPath("namespace"))...)
	}
	errs = append(errs, o.validateSelectors(field.NewPath("resourceSelectors"))...)
	rules := field.NewPath("overrideRules")
	if len(o.Rules) == 0 {
		errs = append(errs, field.Required(rules, "an override has at least one rule"))
	}
	for i, r := range o.Rules {
		errs = append(errs, r.validate(rules.Index(i))...)
	}
	return errs
}

// excess returns the errors of the limits that the override exceeds.
func (o Override) excess() field.ErrorList {
	rules := field.NewPath("overrideRules")
	errs := atMost(field.NewPath("resourceSelectors"), len(o.Selectors), maxSelectors)
	errs = append(errs, atMost(rules, len(o.Rules), maxRules)...)
	for i, r := range o.Rules {
		errs = append(errs, atMost(rules.Index(i).Child("jsonPatchOverrides"), len(r.Patches), maxPatches)...)
	}
	return errs
}

func atMost(path *field.Path, n, most int) field.ErrorList {
	if n <= most {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, most)}
}

func (o Override) validateSelectors(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(o.Selectors) == 0 {
		errs = append(errs, field.Required(path, "an override selects at least one object"))
	}
	for i, s := range o.Selectors {
		at := path.Index(i)
		errs = append(errs, s.validate(at)...)
		if o.Namespace != "" && s.isNamespace() {
			errs = append(errs, field.Forbidden(at.Child("kind"), "only a cluster-wide override selects a Namespace"))
		}
		if slices.Contains(o.Selectors[:i], s) {
			errs = append(errs, field.Duplicate(at, clip(s.Kind+" "+s.Name)))
		}
	}
	return errs
}

func (s ObjectSelector) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, value string }{{"version", s.Version}, {"kind", s.Kind}, {"name", s.Name}} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), "an override selects its objects by version, kind and name"))
		}
	}
	return errs
}

func (r Rule) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.ClusterSelector != nil {
		terms := path.Child("clusterSelector", "clusterSelectorTerms")
		for i, t := range r.ClusterSelector.Terms {
			errs = append(errs, validateSelector(t.LabelSelector, terms.Index(i).Child("labelSelector"))...)
			errs = append(errs, validateNames(t.ClusterNames, terms.Index(i).Child("clusterNames"))...)
			if t.LabelSelector != nil && len(t.ClusterNames) > 0 {
				errs = append(errs, field.Forbidden(terms.Index(i).Child("clusterNames"), "a term has a labelSelector or clusterNames; write two terms"))
			}
		}
	}
	patches := path.Child("jsonPatchOverrides")
	switch {
	case r.Type == Delete && len(r.Patches) > 0:
		return append(errs, field.Forbidden(patches, "a Delete rule has no patches"))
	case r.Type == Delete:
		return errs
	case r.Type != "" && r.Type != JSONPatch:
		return append(errs, field.NotSupported(path.Child("overrideType"), r.Type, []RuleType{JSONPatch, Delete}))
	case len(r.Patches) == 0:
		return append(errs, field.Required(patches, "a JSONPatch rule has at least one patch"))
	}
	for i, p := range r.Patches {
		errs = append(errs, p.validate(patches.Index(i))...)
	}
	return errs
}

func (p Patch) validate(path *field.Path) field.ErrorList {
	errs := validatePath(p.Path, path.Child("path"))
	value := path.Child("value")
	switch p.Op {
	case OpRemove:
		if len(p.Value) > 0 {
			errs = append(errs, field.Forbidden(value, "remove takes no value"))
		}
		return errs
	case OpAdd, OpReplace:
	default:
		return append(errs, field.NotSupported(path.Child("op"), p.Op, []PatchOp{OpAdd, OpRemove, OpReplace}))
	}
	switch {
	case len(p.Value) == 0:
		return append(errs, field.Required(value, fmt.Sprintf("%s takes a value", p.Op)))
	case !json.Valid(p.Value):
		return append(errs, field.Invalid(value, field.OmitValueType{}, "must be JSON"))
	}
	if _, err := compileValue(p.Value); err != nil {
		errs = append(errs, field.Invalid(value, field.OmitValueType{}, err.Error()))
	}
	return errs
}

// validatePath checks the form of a pointer, and that an override may change its target.
func validatePath(pointer string, path *field.Path) field.ErrorList {
	tokens, detail := parsePointer(pointer)
	if detail != "" {
		return field.ErrorList{field.Invalid(path, clip(pointer), detail)}
	}
	if detail := forbidden(tokens); detail != "" {
		return field.ErrorList{field.Forbidden(path, detail)}
	}
	return nil
}

// forbidden says why an override may not change the value at tokens, or "".
func forbidden(tokens []string) string {
	switch tokens[0] {
	case "kind", "apiVersion", "status":
		return "an override cannot change " + tokens[0]
	case "metadata":
		if len(tokens) < 2 || tokens[1] != "labels" && tokens[1] != "annotations" {
			return "in metadata, an override can change labels and annotations only"
		}
	}
	return ""
}
