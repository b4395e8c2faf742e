package placement

import (
	"errors"
	"fmt"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateOverrides returns all problems of the overrides of one placement: the problems that
// [Override.Validate] finds in each, duplicate names, and objects that two cluster-wide
// overrides, or two in the same namespace, select literally with the same priority. A selector of
// a Namespace does not collide with a selector of an object in it. Field paths in errors start
// with path; nil is "overrides".
func ValidateOverrides(overrides []Override, path *field.Path) field.ErrorList {
	if path == nil {
		path = field.NewPath("overrides")
	}
	errs := sameNames(overrides, path.Index)
	for i, o := range overrides {
		errs = append(errs, under(path.Index(i), o.Validate())...)
	}
	return append(errs, collisions(overrides, path)...)
}

// validateFrozen checks overrides of a snapshot. It checks only that their effect is unambiguous,
// because they may be older than the limits. The fields of errors begin with the override's name.
func validateFrozen(overrides []Override) error {
	sorted := sortOverrides(overrides)
	at := func(i int) *field.Path { return field.NewPath("overrides").Key(clip(sorted[i].String())) }
	errs := sameNames(sorted, at)
	for i, o := range sorted {
		errs = append(errs, under(at(i), o.problems().ToAggregate())...)
	}
	return errs.ToAggregate()
}

// sameNames reports overrides that have the name of an earlier one.
func sameNames(overrides []Override, at func(int) *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, o := range overrides {
		if seen[o.String()] {
			errs = append(errs, field.Duplicate(at(i).Child("name"), clip(o.String())))
		}
		seen[o.String()] = true
	}
	return errs
}

// collisions reports selectors that an override of the same rank has, too.
func collisions(overrides []Override, path *field.Path) field.ErrorList {
	type claim struct {
		ObjectSelector
		namespace string
		priority  int32
	}
	var errs field.ErrorList
	first := map[claim]int{}
	for i, o := range overrides {
		for j, s := range o.Selectors {
			k := claim{s, o.Namespace, o.Priority}
			before, taken := first[k]
			if !taken {
				first[k] = i
				continue
			}
			if overrides[before].String() != o.String() { // a duplicate name is reported elsewhere
				errs = append(errs, field.Forbidden(path.Index(i).Child("resourceSelectors").Index(j), fmt.Sprintf(
					"override %s selects %s already: put the rules of both into one, or give one another priority",
					clip(overrides[before].String()), clip(s.Kind+" "+s.Name))))
			}
		}
	}
	return errs
}

// under moves the field errors of err below path.
func under(path *field.Path, err error) field.ErrorList {
	var agg utilerrors.Aggregate
	if !errors.As(err, &agg) {
		return nil
	}
	var list field.ErrorList
	for _, e := range agg.Errors() {
		if fe, ok := errors.AsType[*field.Error](e); ok {
			moved := *fe
			moved.Field = strings.TrimSuffix(path.String()+"."+fe.Field, ".")
			list = append(list, &moved)
		}
	}
	return list
}
