package placement

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// anything stands for every group, kind, name or index.
const anything = "*"

// Restriction forbids overrides to change something that they could change otherwise, for example
// the rules of a ClusterRole. The host sets it for all overrides.
type Restriction struct {
	// Group and Kind select the objects by kind; "*" matches any. An empty group is the core group.
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Paths are JSON pointers (RFC 6901); the segment * matches any name and any index of a list.
	// Overrides must leave the values at and below these paths unchanged and in place, but may leave
	// out the whole object. Without paths no override may select the objects, not even through their
	// Namespace.
	Paths []string `json:"paths,omitempty"`
}

// String returns the restriction as errors print it.
func (r Restriction) String() string {
	what := r.Kind
	if r.Group != "" {
		what += "." + r.Group
	}
	if len(r.Paths) == 0 {
		return what
	}
	return what + " " + strings.Join(r.Paths, ", ")
}

// ValidateRestrictions returns all problems of restrictions. Field paths in errors start with
// path; nil is "restrictions".
func ValidateRestrictions(restrictions []Restriction, path *field.Path) field.ErrorList {
	if path == nil {
		path = field.NewPath("restrictions")
	}
	var errs field.ErrorList
	for i, r := range restrictions {
		at := path.Index(i)
		if r.Kind == "" {
			errs = append(errs, field.Required(at.Child("kind"), "for example ClusterRole, or * for any"))
		}
		for j, p := range r.Paths {
			if _, detail := parsePointer(p); detail != "" {
				errs = append(errs, field.Invalid(at.Child("paths").Index(j), clip(p), detail))
			}
		}
	}
	return errs
}

// Forbidden returns the violations of restrictions that can be recognized from the overrides alone,
// without the objects; [Renderer] checks the objects. Field paths in errors start with path; nil is
// "overrides". The restrictions must be valid.
func Forbidden(overrides []Override, restrictions []Restriction, path *field.Path) field.ErrorList {
	if path == nil {
		path = field.NewPath("overrides")
	}
	var errs field.ErrorList
	for i, o := range overrides {
		for _, r := range restrictions {
			errs = append(errs, r.forbids(o, path.Index(i))...)
		}
	}
	return errs
}

// forbids returns the violations of a restriction by an override.
func (r Restriction) forbids(o Override, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	touched := false
	for i, s := range o.Selectors {
		if !r.covers(s.Group, s.Kind) {
			continue
		}
		touched = true
		if len(r.Paths) == 0 {
			errs = append(errs, field.Forbidden(path.Child("resourceSelectors").Index(i), "the host forbids overrides to select "+clip(r.String())))
		}
	}
	if !touched {
		return errs
	}
	for i, rule := range o.Rules {
		for j, p := range rule.Patches {
			if at := r.at(p.Path); at != "" {
				where := path.Child("overrideRules").Index(i).Child("jsonPatchOverrides").Index(j).Child("path")
				errs = append(errs, field.Forbidden(where, r.refusal(at)))
			}
		}
	}
	return errs
}

// covers reports whether the restriction is about objects of a kind.
func (r Restriction) covers(group, kind string) bool {
	return (r.Group == anything || r.Group == group) && (r.Kind == anything || r.Kind == kind)
}

// at returns the path of the restriction that equals or contains a pointer, or "".
func (r Restriction) at(pointer string) string {
	tokens, detail := parsePointer(pointer)
	if detail != "" {
		return "" // reported as a problem of the pointer
	}
	for _, p := range r.Paths {
		if pattern, _ := parsePointer(p); len(pattern) <= len(tokens) && matches(pattern, tokens[:len(pattern)]) {
			return p
		}
	}
	return ""
}

func matches(pattern, tokens []string) bool {
	return slices.EqualFunc(pattern, tokens, func(p, t string) bool { return p == anything || p == t })
}

func (r Restriction) refusal(path string) string {
	r.Paths = nil
	return fmt.Sprintf("the host forbids overrides to change %s of %s", clip(path), clip(r.String()))
}
