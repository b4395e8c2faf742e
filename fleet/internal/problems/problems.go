// Package problems has what the checks of documents of hosts share.
package problems

import (
	stderrors "errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
)

// Nested returns the problems in err, which a part of a document reports, with
// at before their fields.
func Nested(at *field.Path, err error) (out field.ErrorList) {
	if err == nil {
		return nil
	}
	errs := []error{err}
	if all := errors.Aggregate(nil); stderrors.As(err, &all) {
		errs = all.Errors()
	}
	for _, err := range errs {
		f := &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: err.Error()}
		if inner := (*field.Error)(nil); stderrors.As(err, &inner) {
			c := *inner
			f = &c
		}
		if f.Field == "" {
			f.Field = at.String()
		} else {
			f.Field = at.Child(f.Field).String()
		}
		out = append(out, f)
	}
	return out
}

// Name says what keeps a name from being that of a placement or a run.
// It is also the name of a ledger, and ends annotations and field managers, which
// may be no longer.
func Name(at *field.Path, name string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "must be a DNS subdomain (RFC 1123) of at most 63 characters")}
	}
	if len(name) > stages.MaxPlacementName {
		errs = append(errs, field.TooLong(at, "", stages.MaxPlacementName))
	}
	for _, m := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, m))
	}
	return errs
}

// About returns the problems of an object as one error, nil where there are none.
func About(object string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", object, errs.ToAggregate())
}

// OneOf adds a problem where v is neither empty nor one of known.
func OneOf[T ~string](errs field.ErrorList, at *field.Path, v T, known ...T) field.ErrorList {
	for _, k := range known {
		if v == "" || v == k {
			return errs
		}
	}
	return append(errs, field.NotSupported(at, v, known))
}
