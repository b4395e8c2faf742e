package drift

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

const (
	defaultDifferences = 100
	defaultValueBytes  = 256
)

// Validate reports every problem of the options at once.
func (o Options) Validate() error {
	errs := ValidateIgnoreRules(o.Ignore, field.NewPath("ignore"))
	_, wrong := compilePatterns(o.Secrets, field.NewPath("secrets"))
	return append(append(errs, wrong...), checkOptions(o)...).ToAggregate()
}

func checkOptions(o Options) field.ErrorList {
	var errs field.ErrorList
	if known := []Comparison{Partial, Full}; o.Comparison != "" && !slices.Contains(known, o.Comparison) {
		errs = append(errs, field.NotSupported(field.NewPath("comparison"), o.Comparison, known))
	}
	for i, s := range o.Secrets {
		if s == "" {
			errs = append(errs, field.Required(field.NewPath("secrets").Index(i), "a pointer to a field, such as /spec/password; the object as a whole is not secret"))
		}
	}
	if o.MaxDifferences < 0 {
		errs = append(errs, field.Invalid(field.NewPath("maxDifferences"), o.MaxDifferences, "must not be negative"))
	}
	if o.MaxValueBytes != 0 && o.MaxValueBytes < value.MinShownBytes {
		errs = append(errs, field.Invalid(field.NewPath("maxValueBytes"), o.MaxValueBytes, fmt.Sprintf("must be 0 or at least %d", value.MinShownBytes)))
	}
	return errs
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// ValidateIgnoreRules returns every problem of rules, with their indexes.
func ValidateIgnoreRules(rules []IgnoreRule, path *field.Path) field.ErrorList {
	_, errs := compileIgnores(rules, path)
	return errs
}

// ignore is a rule that is ready for use.
type ignore struct {
	rule     IgnoreRule
	patterns []fieldpath.Pattern
}

func compileIgnores(rules []IgnoreRule, path *field.Path) ([]ignore, field.ErrorList) {
	var errs field.ErrorList
	out := make([]ignore, len(rules))
	for i, r := range rules {
		at := path.Index(i)
		if len(r.Pointers)+len(r.Managers)+len(r.Classes) == 0 {
			errs = append(errs, field.Required(at, "a rule names pointers, managers or classes; the pointer \"\" is the whole object"))
		}
		patterns, wrong := compilePatterns(r.Pointers, at.Child("pointers"))
		errs = append(append(errs, wrong...), checkRule(r, at)...)
		out[i] = ignore{rule: r, patterns: patterns}
	}
	return out, errs
}

func compilePatterns(pointers []string, path *field.Path) ([]fieldpath.Pattern, field.ErrorList) {
	var errs field.ErrorList
	var out []fieldpath.Pattern
	for i, s := range pointers {
		p, err := fieldpath.ParsePattern(s)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), value.Shorten(s), err.Error()))
		}
		out = append(out, p)
	}
	return out, errs
}

func checkRule(r IgnoreRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, m := range r.Managers {
		if m == "" {
			errs = append(errs, field.Required(at.Child("managers").Index(i), "the name of a field manager"))
		}
	}
	known := []Class{Changed, Missing, Stale, Order, Unmanaged}
	for i, c := range r.Classes {
		if !slices.Contains(known, c) {
			errs = append(errs, field.NotSupported(at.Child("classes").Index(i), c, known))
		}
	}
	return errs
}

// narrowed returns the rules that are about an object.
func narrowed(all []ignore, obj *unstructured.Unstructured) []ignore {
	kind := obj.GroupVersionKind()
	return slices.DeleteFunc(slices.Clone(all), func(i ignore) bool {
		return !allows(i.rule.Group, kind.Group) || !allows(i.rule.Kind, kind.Kind) ||
			!allows(i.rule.Namespace, obj.GetNamespace()) || !allows(i.rule.Name, obj.GetName())
	})
}

func allows(want, is string) bool { return want == "" || want == is }

// allowsClass reports whether the rule is about a class.
func (i *ignore) allowsClass(c Class) bool {
	return len(i.rule.Classes) == 0 || slices.Contains(i.rule.Classes, c)
}
