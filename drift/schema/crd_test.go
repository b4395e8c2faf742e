package schema

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func readCRD(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/widgets.crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(text))
}

func decode(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	js, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(js); err != nil {
		t.Fatal(err)
	}
	return u
}

func widget(t testing.TB, version string) *Type {
	t.Helper()
	source, err := FromCRD(readCRD(t))
	if err != nil {
		t.Fatal(err)
	}
	return source.Type(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"})
}

func TestFromCRDReadsAStructuralSchema(t *testing.T) {
	text, number := &Type{Kind: String}, &Type{Kind: Number}
	rolling := map[string]any{"surge": int64(1), "wait": "1m"}
	want := map[string]*Field{
		"size":    {Type: number, Default: int64(3)},
		"ratio":   {Type: number, Default: 0.5},
		"cpu":     {Type: &Type{Kind: Quantity}},
		"port":    {Type: &Type{Kind: IntOrString}},
		"percent": {Type: &Type{Kind: IntOrString}},
		"since":   {Type: &Type{Kind: Time}},
		"every":   {Type: &Type{Kind: Duration}},
		"blob":    {Type: &Type{Kind: Bytes}},
		"token":   {Type: text, Secret: true},
		"tokens":  {Type: &Type{Kind: List, Elem: text}, Secret: true},
		"note":    {Type: &Type{Kind: String, Nullable: true}},
		"parts": {Type: &Type{
			Kind: List, List: Keyed, Keys: []Key{{Name: "port"}, {Name: "protocol", Default: "TCP"}},
			Elem: &Type{Kind: Struct, Fields: map[string]*Field{
				"port": {Type: number}, "protocol": {Type: text, Default: "TCP"},
			}},
		}},
		"tags":     {Type: &Type{Kind: List, List: Set, Elem: text}},
		"args":     {Type: &Type{Kind: List, Elem: text}},
		"labels":   {Type: &Type{Kind: Map, Elem: text}},
		"selector": {Type: &Type{Kind: Map, Elem: text, Whole: true}},
		"free":     {Type: &Type{Kind: Struct, Open: true, Fields: map[string]*Field{}}, Presence: true},
		"any":      {},
		"update": {
			Default: map[string]any{"type": "Rolling", "rolling": rolling},
			Type: &Type{Kind: Struct, Fields: map[string]*Field{
				"type": {Type: text, Default: "Rolling"},
				"rolling": {Default: rolling, Type: &Type{Kind: Struct, Fields: map[string]*Field{
					"surge": {Type: number}, "wait": {Type: text, Default: "1m"},
				}}},
			}},
		},
	}
	got := widget(t, "v1").Field("spec").Type.Fields
	template := got["template"]
	delete(got, "template")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !template.Type.Embedded || !template.Type.Open || template.Type.Field("metadata").Type.Field("finalizers").Type.List != Set {
		t.Errorf("the embedded object: %+v", template.Type)
	}
}

func TestFromCRDKnowsTheFieldsOfEveryObject(t *testing.T) {
	w := widget(t, "v1")
	if w.Name != "Widget" || w.Field("kind").Type.Kind != String || w.Field("metadata").Type.Name != "meta/v1.ObjectMeta" {
		t.Errorf("the object: %+v", w)
	}
	if other := widget(t, "v1beta1"); other.Field("spec") != nil || other.Field("size").Type.Kind != String {
		t.Errorf("another version: %+v", other)
	}
}

func TestFromCRDKnowsNothingOfAnotherKindOrVersion(t *testing.T) {
	source, err := FromCRD(readCRD(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "example.com", Version: "v1alpha1", Kind: "Widget"}, // it has no schema
		{Group: "example.com", Version: "v2", Kind: "Widget"},
		{Group: "example.com", Version: "v1", Kind: "Gadget"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		if got := source.Type(kind); got != nil {
			t.Errorf("%s: %+v, want nil", kind, got)
		}
	}
}

func TestFromCRDCopiesItsArgument(t *testing.T) {
	crd := readCRD(t)
	source, err := FromCRD(crd)
	if err != nil {
		t.Fatal(err)
	}
	spoil(crd.Object)
	f := source.Type(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}).Field("spec").Type.Field("update")
	if diff := cmp.Diff(map[string]any{"type": "Rolling", "rolling": map[string]any{"surge": int64(1), "wait": "1m"}}, f.Default); diff != "" {
		t.Errorf("the default changed with the definition:\n%s", diff)
	}
}

func spoil(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			spoil(v[k])
			v[k] = "spoiled"
		}
	case []any:
		for i := range v {
			spoil(v[i])
			v[i] = "spoiled"
		}
	}
}

func TestFromCRDNamesTheDefinitionTheVersionAndTheField(t *testing.T) {
	const at = "spec.versions[0].schema.openAPIV3Schema"
	for _, c := range []struct{ schema, want string }{
		{`"x"`, at + `: Invalid value: "x": must be a schema (version v1)`},
		{`{type: objekt}`, at + `.type: Unsupported value: "objekt": supported values: "array", "boolean", "integer", "number", "object", "string" (version v1)`},
		{`{type: object, properties: [a]}`, at + `.properties: Invalid value: "a list": must be an object (version v1)`},
		{`{type: object, properties: {a: 1}}`, at + `.properties[a]: Invalid value: 1: must be a schema (version v1)`},
		{`{type: object, additionalProperties: 5}`, at + `.additionalProperties: Invalid value: 5: must be a schema (version v1)`},
		{`{type: array, items: [], x-kubernetes-list-type: heap}`, at + `.items: Invalid value: "a list": must be a schema (version v1)`},
		{`{type: array, x-kubernetes-list-type: heap}`, at + `.x-kubernetes-list-type: Unsupported value: "heap": supported values: "atomic", "map", "set" (version v1)`},
		{`{type: array, x-kubernetes-list-type: map}`, at + `.x-kubernetes-list-type: Required value: a list of the type map needs x-kubernetes-list-map-keys (version v1)`},
		{
			`{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b], items: {type: object, properties: {a: {type: string}}}}`,
			at + `.x-kubernetes-list-type: Invalid value: "b": x-kubernetes-list-map-keys must name fields of the items (version v1)`,
		},
	} {
		err := crdError(decode(t, crdWith(c.schema)))
		if !strings.HasPrefix(err, "CustomResourceDefinition widgets.example.com: ") || !strings.Contains(err, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.schema, err, c.want)
		}
	}
}

func crdWith(schema string) string {
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com},
  spec: {group: example.com, names: {kind: Widget}, versions: [{name: v1, schema: {openAPIV3Schema: ` + schema + `}}]}}`
}

func crdError(crd *unstructured.Unstructured) string {
	if _, err := FromCRD(crd); err != nil {
		return err.Error()
	}
	return ""
}

func TestFromCRDTellsAllProblemsAtOnce(t *testing.T) {
	err := crdError(decode(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {}}`))
	want := "CustomResourceDefinition a: [spec.group: Required value: must be a string that is not empty, " +
		"spec.names.kind: Required value: must be a string that is not empty, spec.versions: Required value: must be a list of versions]"
	if err != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestFromCRDRefusesOtherObjects(t *testing.T) {
	if got := crdError(nil); got != "there is no CustomResourceDefinition" {
		t.Errorf("nil: %s", got)
	}
	if got := crdError(&unstructured.Unstructured{}); !strings.Contains(got, "must be a CustomResourceDefinition") {
		t.Errorf("an empty object: %s", got)
	}
	want := `CustomResourceDefinition a: it is a CustomResourceDefinition of "apiextensions.k8s.io/v1beta1": must be a CustomResourceDefinition of apiextensions.k8s.io/v1`
	if got := crdError(decode(t, `{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: a}}`)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFromCRDRefusesSchemasThatAreNestedTooDeep(t *testing.T) {
	deep := map[string]any{"type": "string"}
	for range 100_000 {
		deep = map[string]any{"type": "array", "items": deep}
	}
	crd := readCRD(t)
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	version["schema"].(map[string]any)["openAPIV3Schema"] = deep
	if got, want := crdError(crd), "more than 128 schemas are nested in one another (version v1)"; !strings.Contains(got, want) {
		t.Errorf("got %.200s, want %s", got, want)
	}
	version["schema"].(map[string]any)["openAPIV3Schema"] = map[string]any{"type": "object", "properties": map[string]any{
		"a": map[string]any{"type": "object", "default": deep},
	}}
	if got, want := crdError(crd), "properties[a].default: Invalid value"; !strings.Contains(got, want) {
		t.Errorf("got %.200s, want %s", got, want)
	}
}

func FuzzFromCRD(f *testing.F) {
	whole, err := json.Marshal(readCRD(f).Object)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":[null,1,{"name":"v1"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		crd := &unstructured.Unstructured{}
		if crd.UnmarshalJSON(data) != nil {
			return
		}
		source, err := FromCRD(crd)
		if (source == nil) == (err == nil) {
			t.Fatalf("source %v, error %v", source, err)
		}
		if v, ok := source.(*versions); ok {
			for _, typ := range v.types {
				checkTree(t, typ, map[*Type]bool{})
			}
		}
	})
}

// checkTree checks the assumptions of a walk over a type.
func checkTree(t *testing.T, typ *Type, seen map[*Type]bool) {
	if typ == nil || seen[typ] {
		return
	}
	seen[typ] = true
	if typ.List == Keyed && len(typ.Keys) == 0 || typ.Kind > List || typ.Fields != nil && typ.Kind != Struct {
		t.Fatalf("type %+v", typ)
	}
	for name, f := range typ.Fields {
		if f == nil {
			t.Fatalf("field %s of %+v is nil", name, typ)
		}
		f.DefaultIn(map[string]any{})
		checkTree(t, f.Type, seen)
	}
	checkTree(t, typ.Elem, seen)
}
