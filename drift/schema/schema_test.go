package schema

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestJoinReturnsTheFirstKnownType(t *testing.T) {
	var asked []string
	source := func(name string, t *Type) Source {
		return SourceFunc(func(schema.GroupVersionKind) *Type {
			asked = append(asked, name)
			return t
		})
	}
	want := &Type{Kind: Struct}
	joined := Join(nil, source("a", nil), source("b", want), source("c", &Type{}))
	if got := joined.Type(schema.GroupVersionKind{}); got != want || len(asked) != 2 {
		t.Errorf("got %v after asking %v, want the type of b", got, asked)
	}
	if got := Join(nil, source("a", nil)).Type(schema.GroupVersionKind{}); got != nil {
		t.Errorf("got %v, want nil", got)
	}
}

func TestUnknownTypesAreNil(t *testing.T) {
	var unknown *Type
	if unknown.Field("a") != nil || (&Type{}).Field("a") != nil {
		t.Error("a type that is not known has a field")
	}
	for _, kind := range []schema.GroupVersionKind{
		{},
		{Group: "apps", Version: "v1"},
		{Group: "apps", Version: "v1", Kind: "DeploymentSpec"}, // it is in the table, and no kind
		{Group: "apps\" apps\n", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "Deployment kind"},
		{Group: "apps", Version: "v9", Kind: "Deployment"},
		{Group: "example.com", Version: "v1", Kind: "Widget"},
	} {
		if got := Builtin().Type(kind); got != nil {
			t.Errorf("%q: %+v, want nil", kind, got)
		}
	}
}
