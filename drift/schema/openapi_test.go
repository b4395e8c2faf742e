package schema

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func statefulSet() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
}

// appsDocument is the part of the document of Kubernetes 1.37.2 that a StatefulSet is made of,
// without descriptions.
func appsDocument(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/apps.openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func openAPI(t testing.TB, document string) Source {
	t.Helper()
	source, err := FromOpenAPI([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// The table was made from Go source, the document from a server: they describe the same, except
// that they call types by other names.
func TestFromOpenAPIAndTheTableSayTheSameOfAStatefulSet(t *testing.T) {
	got := openAPI(t, string(appsDocument(t))).Type(statefulSet())
	c := comparison{t: t, seen: map[[2]*Type]bool{}}
	c.types("", got, Builtin().Type(statefulSet()))
	if len(c.seen) < 150 {
		t.Errorf("%d types were compared, want all of a Pod", len(c.seen))
	}
}

type comparison struct {
	t    *testing.T
	seen map[[2]*Type]bool
}

func (c comparison) types(at string, a, b *Type) {
	if c.seen[[2]*Type{a, b}] || a == nil && b == nil {
		return
	}
	c.seen[[2]*Type{a, b}] = true
	if a == nil || b == nil {
		c.t.Errorf("%s: %+v, want %+v", at, a, b)
		return
	}
	if diff := cmp.Diff(outline(b), outline(a)); diff != "" {
		c.t.Errorf("%s (-want +got):\n%s", at, diff)
	}
	for name, f := range a.Fields {
		if g := b.Field(name); g != nil {
			if diff := cmp.Diff(outlineField(g), outlineField(f)); diff != "" {
				c.t.Errorf("%s.%s (-want +got):\n%s", at, name, diff)
			}
			c.types(at+"."+name, f.Type, g.Type)
		}
	}
	c.types(at+"[]", a.Elem, b.Elem)
}

// outline is a type without those inside of it.
func outline(t *Type) Type {
	o := *t
	o.Name, o.Elem, o.Fields = "", nil, map[string]*Field{}
	for name := range t.Fields {
		o.Fields[name] = nil
	}
	return o
}

func outlineField(f *Field) Field {
	o := *f
	o.Type = nil
	return o
}

// widgetDocument has a kind that the built-in table does not know.
const widgetDocument = `{"openapi":"3.0.0","components":{"schemas":{"com.example.v1.Widget":{
		"type":"object",
		"x-kubernetes-group-version-kind":[{"group":"example.com","version":"v1","kind":"Widget"}],
		"properties":{
			"metadata":{"allOf":[{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
			"spec":{"$ref":"#/components/schemas/com.example.v1.Widget~1Spec"}}},
		"com.example.v1.Widget/Spec":{"type":"object","properties":{
			"size":{"type":"integer","default":9007199254740993},
			"cpu":{"allOf":[{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}]},
			"since":{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"},
			"raw":{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.runtime.RawExtension"},
			"port":{"$ref":"#/components/schemas/Port"},
			"always":{"allOf":[{"$ref":"#/components/schemas/Always"}],"default":{}},
			"merged":{"type":"array","x-kubernetes-patch-merge-key":"name","items":{"type":"object","properties":{"name":{"type":"string"}}}}}},
		"Port":{"oneOf":[{"type":"integer"},{"type":"string"}],"format":"int-or-string"},
		"Always":{"type":"object"}}}}`

func TestFromOpenAPIReadsACustomKind(t *testing.T) {
	source := openAPI(t, widgetDocument)
	w := source.Type(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	if w.Name != "com.example.v1.Widget" || w.Field("metadata").Type.Name != "meta/v1.ObjectMeta" {
		t.Errorf("the object: %+v", w)
	}
	text := &Type{Kind: String}
	want := map[string]*Field{
		"size":   {Type: &Type{Kind: Number}, Default: int64(9007199254740993)},
		"cpu":    {Type: &Type{Kind: Quantity}},
		"since":  {Type: &Type{Kind: Time}},
		"raw":    {},
		"port":   {Type: &Type{Name: "Port", Kind: IntOrString}},
		"always": {Type: &Type{Name: "Always", Kind: Struct, Fields: map[string]*Field{}}, Default: map[string]any{}},
		"merged": {Type: &Type{
			Kind: List, List: Keyed, Keys: []Key{{Name: "name"}},
			Elem: &Type{Kind: Struct, Fields: map[string]*Field{"name": {Type: text}}},
		}},
	}
	if diff := cmp.Diff(want, w.Field("spec").Type.Fields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFromOpenAPIIsLazyAndKeepsAKind(t *testing.T) {
	source := openAPI(t, string(appsDocument(t))).(*components)
	if len(source.shared) != 0 {
		t.Errorf("%d types were compiled before any was asked for", len(source.shared))
	}
	if first := source.Type(statefulSet()); first != source.Type(statefulSet()) {
		t.Error("a kind was compiled twice")
	}
	if got := source.Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "None"}); got != nil {
		t.Errorf("a kind that is not in the document: %+v", got)
	}
}

func TestFromOpenAPIWithRecursiveReferences(t *testing.T) {
	const head = `{"openapi":"3.0.0","components":{"schemas":{"A":{"x-kubernetes-group-version-kind":[{"group":"g","version":"v1","kind":"A"}],`
	for _, c := range []string{
		`"$ref":"#/components/schemas/A"}`,
		`"$ref":"#/components/schemas/B"},"B":{"$ref":"#/components/schemas/A"}`,
		`"$ref":"#/components/schemas/None"}`,
		`"$ref":"https://example.com/a.json"}`,
		`"type":"object","properties":{"a":{"$ref":"#/components/schemas/A"}}}`,
		`"type":"array","items":{"$ref":"#/components/schemas/A"}}`,
		`"type":"object","properties":{"a":{"allOf":[{"$ref":"#/components/schemas/B"}],"default":{}}}},"B":{"type":"object","properties":{"b":{"allOf":[{"$ref":"#/components/schemas/B"}],"default":{}}}}`,
	} {
		typ := openAPI(t, head+c+`}}}`).Type(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "A"})
		checkTree(t, typ, map[*Type]bool{})
	}
}

func TestFromOpenAPIBoundsTheDepth(t *testing.T) {
	document := `{"openapi":"3.0.0","components":{"schemas":{"A":{"type":"object","x-kubernetes-group-version-kind":[{"group":"g","version":"v1","kind":"A"}],
		"properties":{"deep":` + strings.Repeat(`{"type":"array","items":`, 3000) + `{"type":"string"}` + strings.Repeat(`}`, 3000) + `}}}}}`
	depth := 0
	for typ := openAPI(t, document).Type(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "A"}).Field("deep").Type; typ != nil; typ = typ.Elem {
		depth++
	}
	if depth != maxDepth {
		t.Errorf("%d levels are known, want %d", depth, maxDepth)
	}
}

func TestFromOpenAPIErrors(t *testing.T) {
	for _, c := range []struct{ document, want string }{
		{`{`, "the OpenAPI document is not JSON: unexpected end of JSON input"},
		{`{"swagger":"2.0"}`, `the document is of OpenAPI "2.0": must be of version 3, as /openapi/v3 serves it`},
		{`{}`, `openapi: "": must be a version 3`},
		{`{"openapi":"3.0.0"}`, "components.schemas: there is none in the OpenAPI document"},
	} {
		if _, err := FromOpenAPI([]byte(c.document)); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.document, err, c.want)
		}
	}
}

// Schemas of older servers do not say how a list is merged.
func TestFromOpenAPIAddsListKeysOfTheTable(t *testing.T) {
	source := openAPI(t, `{"openapi":"3.0.0","components":{"schemas":{"io.k8s.api.apps.v1.Deployment":{
		"type":"object","x-kubernetes-group-version-kind":[{"group":"apps","version":"v1","kind":"Deployment"}],
		"properties":{"spec":{"type":"object","properties":{
			"novel":{"type":"string","default":"new"},
			"replicas":{"type":"integer","default":0},
			"template":{"type":"object","properties":{"spec":{"type":"object","properties":{
				"initContainers":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}}}}}}}}}}}}}`)
	spec := source.Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}).Field("spec").Type
	list := spec.Field("template").Type.Field("spec").Type.Field("initContainers").Type
	if list.List != Keyed || !list.Ordered || list.Keys[0].Name != "name" {
		t.Errorf("initContainers: %+v", list)
	}
	if f := spec.Field("replicas"); f.Default != int64(1) {
		t.Errorf("replicas: %+v", f)
	}
	if f := spec.Field("novel"); f.Default != "new" {
		t.Errorf("a field that the table does not have: %+v", f)
	}
}

func TestATypeThatContainsItselfIsCompiledOnce(t *testing.T) {
	source := openAPI(t, `{"openapi":"3.0.0","components":{"schemas":{"A":{"type":"object",
		"x-kubernetes-group-version-kind":[{"group":"g","version":"v1","kind":"A"}],
		"properties":{"a":{"$ref":"#/components/schemas/A"}}}}}}`)
	inner := source.Type(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "A"}).Field("a").Type
	if inner == nil || inner.Field("a").Type != inner {
		t.Errorf("a is %p, and in it %p", inner, inner.Field("a").Type)
	}
	props := Builtin().Type(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}).
		Field("spec").Type.Field("versions").Type.Elem.Field("schema").Type.Field("openAPIV3Schema").Type
	if props.Field("not").Type != props {
		t.Error("a schema in a schema has a type of its own")
	}
}

func TestSourcesMayBeUsedConcurrently(t *testing.T) {
	kinds := []string{"StatefulSet", "Deployment", "DaemonSet", "ReplicaSet", "ControllerRevision", "None"}
	for _, source := range []Source{&table{text: builtinText}, openAPI(t, string(appsDocument(t))), Builtin()} {
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range 2 * len(kinds) {
			all.Go(func() {
				<-start
				for j := range kinds {
					kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kinds[(i+j)%len(kinds)]}
					checkTree(t, source.Type(kind), map[*Type]bool{})
				}
			})
		}
		close(start)
		all.Wait()
	}
}

func FuzzFromOpenAPI(f *testing.F) {
	f.Add([]byte(widgetDocument))
	f.Add([]byte(`{"openapi":"3.0.0","components":{"schemas":{"A":{"type":"object","x-kubernetes-group-version-kind":[{"group":"g","version":"v1","kind":"A"}],"properties":{"a":{"$ref":"#/components/schemas/A"}}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		source, err := FromOpenAPI(data)
		if err != nil {
			return
		}
		for kind := range source.(*components).names {
			checkTree(t, source.Type(kind), map[*Type]bool{})
		}
	})
}

func BenchmarkFromOpenAPI(b *testing.B) {
	document := appsDocument(b)
	b.Run("document", func(b *testing.B) {
		b.SetBytes(int64(len(document)))
		for b.Loop() {
			if _, err := FromOpenAPI(document); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first use", func(b *testing.B) {
		for b.Loop() {
			openAPI(b, string(document)).Type(statefulSet())
		}
	})
}
