// Package problems holds checks that the documents of hosts share.
package problems

import (
	stderrors "errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
)

// Nested returns the problems in err, the error about a part of a document, and prefixes their
// fields with at.
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

// Name returns the problems that make name invalid for a placement or a run. The limit on its
// length exists because the name is also the name of a ledger and the end of annotations and field
// managers.
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

// About returns the problems of an object as one error, or nil if there are none.
func About(object string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", object, errs.ToAggregate())
}

// OneOf adds a problem unless v is empty or one of known.
func OneOf[T ~string](errs field.ErrorList, at *field.Path, v T, known ...T) field.ErrorList {
	for _, k := range known {
		if v == "" || v == k {
			return errs
		}
	}
	return append(errs, field.NotSupported(at, v, known))
}
