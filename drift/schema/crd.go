package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// versions is a source of the versions of one kind.
type versions struct {
	group, kind string
	types       map[string]*Type
}

// Type implements [Source].
func (v *versions) Type(kind schema.GroupVersionKind) *Type {
	if kind.Group != v.group || kind.Kind != v.kind {
		return nil
	}
	return v.types[kind.Version]
}

// FromCRD returns the types of a CustomResourceDefinition of apiextensions.k8s.io/v1, in all of
// its versions. A version without a schema is unknown. The presence of an object with properties
// has a meaning, even as {}. A number or string is a quantity if it has the pattern that
// controller-gen writes for a resource.Quantity. FromCRD keeps nothing of crd. The error names
// the definition and lists the problems with their fields. It refuses schemas that are nested
// deeper than 128 levels, and more than 200,000 of them.
func FromCRD(crd *unstructured.Unstructured) (Source, error) {
	if crd == nil {
		return nil, errors.New("there is no CustomResourceDefinition")
	}
	name := "CustomResourceDefinition " + crd.GetName()
	if v := crd.GetAPIVersion(); v != "apiextensions.k8s.io/v1" || crd.GetKind() != "CustomResourceDefinition" {
		return nil, fmt.Errorf("%s: it is a %s of %q: must be a CustomResourceDefinition of apiextensions.k8s.io/v1", name, crd.GetKind(), v)
	}
	v, errs := readVersions(crd.Object)
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
		return nil, fmt.Errorf("%s: %w", name, errs.ToAggregate())
	}
	return v, nil
}

func readVersions(crd object) (*versions, field.ErrorList) {
	c, at := &compiler{}, field.NewPath("spec")
	spec, _ := crd["spec"].(object)
	names, _ := spec["names"].(object)
	v := &versions{group: c.text(spec, "group", at), kind: c.text(names, "kind", at.Child("names")), types: map[string]*Type{}}
	list, _ := spec["versions"].([]any)
	if len(list) == 0 {
		c.fail(field.Required(at.Child("versions"), "must be a list of versions"))
	}
	for i, item := range list {
		version, _ := item.(object)
		at := at.Child("versions").Index(i)
		if name := c.text(version, "name", at); name != "" {
			c.readVersion(v, version, name, at)
		}
	}
	return v, c.errs
}

func (c *compiler) text(o object, name string, at *field.Path) string {
	s, _ := o[name].(string)
	if s == "" {
		c.fail(field.Required(at.Child(name), "must be a string that is not empty"))
	}
	return s
}

// readVersion compiles the schema of a version. Its errors name the version.
func (c *compiler) readVersion(v *versions, version object, name string, at *field.Path) {
	holder, _ := version["schema"].(object)
	before := len(c.errs)
	t := c.root(holder["openAPIV3Schema"], at.Child("schema", "openAPIV3Schema"))
	for _, err := range c.errs[before:] {
		err.Detail += " (version " + name + ")"
	}
	if t == nil || t.Kind != Struct {
		return
	}
	t.Name = v.kind
	t.addObjectFields()
	v.types[name] = t
}

// root compiles the schema of a whole object, nil if there is none.
func (c *compiler) root(s any, at *field.Path) *Type {
	switch s := s.(type) {
	case object:
		return c.typ(s, nil, at, 0)
	case nil:
		return nil
	}
	c.fail(field.TypeInvalid(at, describe(s), "must be a schema"))
	return nil
}
