package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/schema"
)

// decoded reads YAML as a server's client does: whole numbers are int64.
func decoded(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	b, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(b); err != nil {
		t.Fatal(err)
	}
	return o
}

// mark writes a class as reference tables do.
func mark(c Class) string {
	switch c {
	case Changed:
		return "~"
	case Missing:
		return "-"
	case Unmanaged:
		return "+"
	case Order:
		return "o"
	default:
		return "!"
	}
}

func summary(all []*Finding) string {
	var lines []string
	for _, f := range all {
		line := mark(f.Class) + fieldpath.Pointer(f.Path, fieldpath.MemberSide)
		if f.Note != "" {
			line += " (" + f.Note + ")"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// both walks with both comparisons and returns both results.
func both(t *testing.T, hub, member string, types *schema.Type) (partial, full string, warnings []string) {
	t.Helper()
	o := decoded(t, hub)
	if types == nil {
		types = schema.Builtin().Type(o.GroupVersionKind())
	}
	tree, err := Compile(o, Options{Type: types})
	if err != nil {
		t.Fatal(err)
	}
	live := decoded(t, member)
	a, warned, _ := tree.Compare(live.Object, false, nil)
	b, _, _ := tree.Compare(live.Object, true, nil)
	return summary(a), summary(b), append(slices.Clone(tree.Warnings), warned...)
}

type walkCase struct {
	name, hub, member, partial, full, warning string
}

func (c walkCase) run(t *testing.T, head string, types *schema.Type) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		partial, full, warnings := both(t, head+c.hub, head+c.member, types)
		if diff := cmp.Diff(c.partial, partial); diff != "" {
			t.Errorf("partial (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(c.full, full); diff != "" {
			t.Errorf("full (-want +got):\n%s", diff)
		}
		if got := strings.Join(warnings, "; "); (c.warning == "") != (got == "") || !strings.Contains(got, c.warning) {
			t.Errorf("warnings %q, want %q", got, c.warning)
		}
	})
}

// custom is the type of a custom resource with a field of each sort in its spec.
func custom() *schema.Type {
	text := &schema.Type{Kind: schema.String}
	of := func(k schema.Kind) *schema.Field { return &schema.Field{Type: &schema.Type{Kind: k}} }
	part := &schema.Type{Kind: schema.Struct, Fields: map[string]*schema.Field{
		"name": {Type: text}, "port": of(schema.Number), "size": {Type: &schema.Type{Kind: schema.Number}, Default: int64(3)},
	}}
	port := &schema.Type{Kind: schema.Struct, Fields: map[string]*schema.Field{
		"port": of(schema.Number), "name": {Type: text, Default: "tcp"},
	}}
	keyed := func(ordered bool, elem *schema.Type, keys ...schema.Key) *schema.Field {
		return &schema.Field{Type: &schema.Type{Kind: schema.List, Elem: elem, List: schema.Keyed, Keys: keys, Ordered: ordered}}
	}
	spec := &schema.Type{Kind: schema.Struct, Fields: map[string]*schema.Field{
		"size": {Type: &schema.Type{Kind: schema.Number}, Default: int64(3)}, "text": {Type: text},
		"nullable": {Type: &schema.Type{Kind: schema.String, Nullable: true}},
		"amount":   of(schema.Quantity), "port": of(schema.IntOrString), "wait": of(schema.Duration),
		"at": of(schema.Time), "bytes": of(schema.Bytes), "flag": of(schema.Boolean),
		"parts": keyed(false, part, schema.Key{Name: "name"}), "steps": keyed(true, part, schema.Key{Name: "name"}),
		"ports": keyed(false, port, schema.Key{Name: "port"}, schema.Key{Name: "name", Default: "tcp"}),
		"tags":  {Type: &schema.Type{Kind: schema.List, Elem: text, List: schema.Set}},
		"args":  {Type: &schema.Type{Kind: schema.List, Elem: text}},
		"rules": {Type: &schema.Type{Kind: schema.List, Elem: part, Unordered: true}},
		"items": {Type: &schema.Type{Kind: schema.List, Elem: part}},
		"groups": {Type: &schema.Type{Kind: schema.List, Elem: &schema.Type{Kind: schema.Struct, Fields: map[string]*schema.Field{
			"parts": keyed(false, part, schema.Key{Name: "name"}), "steps": keyed(true, part, schema.Key{Name: "name"}),
		}}}},
		"whole": {Type: &schema.Type{Kind: schema.Map, Elem: text, Whole: true}},
		"map":   {Type: &schema.Type{Kind: schema.Map, Elem: text}},
		"empty": {Type: &schema.Type{Kind: schema.Struct, Fields: map[string]*schema.Field{"a": {Type: text}}}, Presence: true},
		"loose": {Type: &schema.Type{Kind: schema.Struct, Fields: map[string]*schema.Field{"a": {Type: text}}}},
		"source": {Type: &schema.Type{Kind: schema.Struct, Union: []string{"a", "b"}, Fields: map[string]*schema.Field{
			"a": {Type: text}, "b": {Type: text}, "c": {Type: text},
		}}},
		"server": {Type: text, ServerOwned: true}, "fixed": {Type: text, Immutable: true},
		"bundle": {Type: &schema.Type{Kind: schema.Bytes}, ServerOwned: true}, "any": {},
	}}
	return &schema.Type{Kind: schema.Struct, Fields: map[string]*schema.Field{"spec": {Type: spec}}}
}

const customHead = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n"

func TestTheWalkClassifiesEveryDifferenceForBothComparisons(t *testing.T) {
	spec := func(s string) string { return "spec: {" + s + "}" }
	for _, c := range []walkCase{
		{"equal", "text: a", "text: a", "", "", ""},
		{"changed", "text: a", "text: b", "~/spec/text", "~/spec/text", ""},
		{"missing", "text: a", "", "-/spec/text", "-/spec/text", ""},
		{"missing beside others", "text: a", "size: 3", "-/spec/text", "-/spec/text", ""},
		{"unmanaged", "text: a", "text: a, map: {a: b}", "", "+/spec/map", ""},
		{"unknown extra field", "text: a", "text: a, other: 1", "", "+/spec/other", ""},
		{"default", "text: a", "text: a, size: 3", "", "", ""},
		{"default as float", "text: a", "text: a, size: 3.0", "", "", ""},
		{"not the default", "text: a", "text: a, size: 4", "", "+/spec/size", ""},
		{"default said by the hub alone", "size: 3, text: a", "text: a", "", "", ""},
		{"not the default said by the hub alone", "size: 4, text: a", "text: a", "-/spec/size", "-/spec/size", ""},
		{"zero is not absent", "size: 0, text: a", "text: a", "-/spec/size", "-/spec/size", ""},
		{"server owned", "text: a", "text: a, server: x", "", "", ""},
		{"server owned said by the hub", "server: y", "server: x", "~/spec/server", "~/spec/server", ""},
		{"immutable", "fixed: y", "fixed: x", "~/spec/fixed (immutable)", "~/spec/fixed (immutable)", ""},
		{"null is absent", "text: null, map: {a: b}", "map: {a: b}", "", "", ""},
		{"null on the member", "map: {a: b}", "map: {a: b}, text: null, other: null", "", "", ""},
		{"null instead of a value", "text: a, size: 3", "text: null", "-/spec/text", "-/spec/text", ""},
		{"nullable null and absent", "nullable: null", "text: a, nullable: null", "", "+/spec/text", ""},
		{"nullable null and nothing", "nullable: null", "size: 3", "", "", ""},
		{"nullable null and a value", "nullable: null", "nullable: x", "~/spec/nullable", "~/spec/nullable", ""},
		{"nullable value and null", "nullable: x", "nullable: null", "~/spec/nullable", "~/spec/nullable", ""},
		{"empty map is absent", "loose: {}, text: a", "text: a", "", "", ""},
		{"empty list is absent", "args: [], parts: [], tags: [], text: a", "text: a", "", "", ""},
		{"extra empties", "text: a", "text: a, loose: {}, args: [], any: {}", "", "", ""},
		{"nested empties", "any: {a: {b: {}}}, text: a", "text: a, any: {c: {d: []}}", "", "", ""},
		{"presence", "empty: {}, text: a", "text: a", "-/spec/empty", "-/spec/empty", ""},
		{"extra presence", "text: a", "text: a, empty: {}", "", "+/spec/empty", ""},
		{"pruned", "gone: 1, text: a", "text: a", "-/spec/gone (pruned)", "-/spec/gone (pruned)", ""},
		{"unknown kept", "kept: {a: [1, {b: 1.0}]}", "kept: {a: [1.0, {b: 1}]}", "", "", ""},
		{"type", "flag: true", "flag: \"true\"", "~/spec/flag", "~/spec/flag", ""},
		{"map for text", "any: {a: 1}", "any: x", "~/spec/any", "~/spec/any", ""},
		{"text for map", "text: x", "text: {a: 1}", "~/spec/text", "~/spec/text", ""},
		{"list for map", "any: {a: 1}", "any: [1]", "~/spec/any", "~/spec/any", ""},
		{"keyed for map", "parts: [{name: a}]", "parts: {name: a}", "~/spec/parts", "~/spec/parts", ""},
		{"whole", "whole: {a: x}", "whole: {a: x, b: y}", "+/spec/whole/b", "+/spec/whole/b", ""},
		{"granular", "map: {a: x}", "map: {a: x, b: y}", "", "+/spec/map/b", ""},
		{"union", "source: {a: x}", "source: {b: y, c: z}", "+/spec/source/b -/spec/source/a", "+/spec/source/b +/spec/source/c -/spec/source/a", ""},
		{"union, not chosen by the hub", "source: {c: x}", "source: {b: y, c: x}", "", "+/spec/source/b", ""},
		{"names are escaped", "any: {a/b: 1, a~b: 1, \"\": 1, a~1b: 1}", "any: {a/b: 2, a~b: 2, \"\": 2, a~1b: 2}", "~/spec/any/ ~/spec/any/a~01b ~/spec/any/a~0b ~/spec/any/a~1b", "~/spec/any/ ~/spec/any/a~01b ~/spec/any/a~0b ~/spec/any/a~1b", ""},
		{"placeholder of a bundle", "bundle: Cg==", "bundle: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", "", "", ""},
		{"a bundle", "bundle: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", "bundle: Cg==", "~/spec/bundle", "~/spec/bundle", ""},
	} {
		c.hub, c.member = spec(c.hub), spec(c.member)
		c.run(t, customHead, custom())
	}
}

func TestListsAreAlignedAsTheirSchemaSays(t *testing.T) {
	spec := func(s string) string { return "spec: {" + s + "}" }
	for _, c := range []walkCase{
		{"same order", "parts: [{name: a, port: 1}, {name: b}]", "parts: [{name: a, port: 1}, {name: b}]", "", "", ""},
		{"item changed", "parts: [{name: a, port: 1}, {name: b}]", "parts: [{name: a, port: 2}, {name: b}]", "~/spec/parts/0/port", "~/spec/parts/0/port", ""},
		{"order", "parts: [{name: a}, {name: b}]", "parts: [{name: b}, {name: a}]", "", "o/spec/parts", ""},
		{"order with a meaning", "steps: [{name: a}, {name: b}]", "steps: [{name: b}, {name: a}]", "o/spec/steps", "o/spec/steps", ""},
		{"index of the member", "parts: [{name: a, port: 1}, {name: b, port: 1}]", "parts: [{name: z}, {name: b, port: 2}, {name: a, port: 1}]", "~/spec/parts/1/port", "+/spec/parts/0 o/spec/parts ~/spec/parts/1/port", ""},
		{"one of three is gone", "parts: [{name: a}, {name: b}, {name: c}]", "parts: [{name: a}, {name: c}]", "-/spec/parts/1", "-/spec/parts/1", ""},
		{"all but one are gone (K1)", "parts: [{name: a}, {name: b}, {name: c}, {name: d}]", "parts: [{name: a}]", "-/spec/parts/1 -/spec/parts/2 -/spec/parts/3", "-/spec/parts/1 -/spec/parts/2 -/spec/parts/3", ""},
		{"appended (K2)", "parts: [{name: a}]", "parts: [{name: a}, {name: b}, {name: c}]", "", "+/spec/parts/1 +/spec/parts/2", ""},
		{"inserted", "parts: [{name: a}, {name: b}]", "parts: [{name: z}, {name: a}, {name: b}]", "", "+/spec/parts/0", ""},
		{"inserted where order has a meaning", "steps: [{name: a}, {name: b}]", "steps: [{name: z}, {name: a}, {name: b}]", "", "+/spec/steps/0", ""},
		{"default of a key", "ports: [{port: 1}, {port: 2, name: tcp}]", "ports: [{port: 1, name: tcp}, {port: 2}]", "", "", ""},
		{"another key beside the default", "ports: [{port: 1}]", "ports: [{port: 1, name: udp}, {port: 1, name: tcp}]", "", "+/spec/ports/0", ""},
		{"keys as numbers of any type", "ports: [{port: 1}]", "ports: [{port: 1.0}]", "", "", ""},
		{"a missing key is a missing key", "parts: [{port: 1}, {name: a}]", "parts: [{name: a}, {port: 1}]", "", "o/spec/parts", ""},
		{"duplicates as stored", "parts: [{name: a, port: 1}, {name: a, port: 2}]", "parts: [{name: a, port: 1}, {name: a, port: 2}]", "", "", "duplicate key"},
		{"duplicate on the member", "parts: [{name: a, port: 1}]", "parts: [{name: a, port: 1}, {name: a, port: 2}]", "+/spec/parts/1 (duplicate key)", "+/spec/parts/1 (duplicate key)", "duplicate key"},
		{"duplicate on the hub", "parts: [{name: a}, {name: a}]", "parts: [{name: a}]", "-/spec/parts/1", "-/spec/parts/1", "duplicate key"},
		{"items that are no maps", "parts: [a, {name: b}]", "parts: [a, {name: b}]", "", "", ""},
		{"items that are no maps on the member", "parts: [{name: b}]", "parts: [a, {name: b}]", "", "+/spec/parts/0", ""},
		{"set", "tags: [a, b]", "tags: [b, a]", "", "", ""},
		{"set with more", "tags: [a, b]", "tags: [z, b, a]", "", "+/spec/tags/0", ""},
		{"set with less", "tags: [a, b]", "tags: [b]", "-/spec/tags/0", "-/spec/tags/0", ""},
		{"set with duplicates", "tags: [a, a]", "tags: [a]", "", "", "duplicate key"},
		{"set with duplicates on the member", "tags: [a]", "tags: [a, a]", "", "", "duplicate key"},
		{"atomic", "args: [a, b]", "args: [b, a]", "~/spec/args (reordered)", "~/spec/args (reordered)", ""},
		{"atomic, shorter", "args: [a, b]", "args: [a]", "-/spec/args/1", "-/spec/args/1", ""},
		{"atomic, inserted", "args: [a, b]", "args: [z, a, b]", "+/spec/args/0", "+/spec/args/0", ""},
		{"atomic, inserted and changed", "args: [a, b, c]", "args: [z, a, x, c]", "+/spec/args/0 ~/spec/args/2", "+/spec/args/0 ~/spec/args/2", ""},
		{"atomic, one moved and one changed", "args: [a, b, c, d]", "args: [d, a, x, c]", "+/spec/args/0 -/spec/args/3 ~/spec/args/2", "+/spec/args/0 -/spec/args/3 ~/spec/args/2", ""},
		{"atomic, all others", "args: [a, b]", "args: [x, y]", "~/spec/args/0 ~/spec/args/1", "~/spec/args/0 ~/spec/args/1", ""},
		{"atomic, all others and more of them", "args: [a, b]", "args: [x, y, z]", "~/spec/args", "~/spec/args", ""},
		{"atomic, emptied", "args: [a, b]", "args: []", "~/spec/args", "~/spec/args", ""},
		{"atomic, said to be empty", "args: []", "args: [a]", "+/spec/args", "+/spec/args", ""},
		{"atomic, gone", "args: [a], text: b", "text: b", "-/spec/args", "-/spec/args", ""},
		{"atomic with defaults", "items: [{name: a}]", "items: [{name: a, size: 3}]", "", "", ""},
		{"atomic with more in an item", "items: [{name: a}]", "items: [{name: a, size: 4}]", "+/spec/items/0/size", "+/spec/items/0/size", ""},
		{"atomic without order", "rules: [{name: a}, {name: b}]", "rules: [{name: b}, {name: a, size: 3}]", "o/spec/rules", "o/spec/rules", ""},
		{"atomic without order, changed", "rules: [{name: a}, {name: b}]", "rules: [{name: b}, {name: c}]", "~/spec/rules/1/name", "~/spec/rules/1/name", ""},
		{"atomic without order, twice the same", "rules: [{name: a}, {name: b}]", "rules: [{name: b}, {name: b}]", "~/spec/rules/0/name", "~/spec/rules/0/name", ""},
		{"atomic without order, moved and more", "rules: [{name: a}, {name: b}]", "rules: [{name: b}, {name: c}, {name: a}]", "+/spec/rules/1", "+/spec/rules/1", ""},
		{"order inside of an atomic list", "groups: [{parts: [{name: a}, {name: b}]}]", "groups: [{parts: [{name: b}, {name: a}]}]", "", "", ""},
		{"order with a meaning inside of an atomic list", "groups: [{steps: [{name: a}, {name: b}]}]", "groups: [{steps: [{name: b}, {name: a}]}]", "o/spec/groups/0/steps", "o/spec/groups/0/steps", ""},
		{"unknown list", "any: [1, 2]", "any: [2, 1]", "~/spec/any (reordered)", "~/spec/any (reordered)", ""},
		{"unknown list of maps", "any: [{a: 1}]", "any: [{a: 1, b: 2}]", "+/spec/any/0/b", "+/spec/any/0/b", ""},
		{"null items", "any: [null, 1]", "any: [null, 1]", "", "", ""},
		{"null items keep their place", "any: [null, 1]", "any: [1]", "-/spec/any/0", "-/spec/any/0", ""},
	} {
		c.hub, c.member = spec(c.hub), spec(c.member)
		c.run(t, customHead, custom())
	}
}

func TestMetadataIsComparedKeyByKeyButForTheKeysOfServers(t *testing.T) {
	for _, c := range []walkCase{
		{"system annotations", "", ", annotations: {deployment.kubernetes.io/revision: \"3\", kubectl.kubernetes.io/last-applied-configuration: x, epoch.slipway.dev/p: \"1\"}", "", "", ""},
		{"system key on the hub", ", annotations: {deprecated.daemonset.template.generation: \"5\"}", ", annotations: {deprecated.daemonset.template.generation: \"1\"}", "", "", ""},
		{"keys that look like those (K5)", ", labels: {app.kubernetes.io/version: \"1\", pod-security.kubernetes.io/enforce: baseline}", ", labels: {app.kubernetes.io/version: \"2\"}", "-/metadata/labels/pod-security.kubernetes.io~1enforce ~/metadata/labels/app.kubernetes.io~1version", "-/metadata/labels/pod-security.kubernetes.io~1enforce ~/metadata/labels/app.kubernetes.io~1version", ""},
		{"unmanaged labels", ", labels: {owner: redfield}", ", labels: {owner: wesker, use: hack}", "~/metadata/labels/owner", "+/metadata/labels/use ~/metadata/labels/owner", ""},
		{"unmanaged annotations without any of the hub", "", ", annotations: {a: b, deployment.kubernetes.io/revision: \"1\"}", "", "+/metadata/annotations/a", ""},
		{"all labels gone", ", labels: {a: b}", "", "-/metadata/labels", "-/metadata/labels", ""},
		{"finalizers (K6)", ", finalizers: [a]", ", finalizers: [b, a]", "", "+/metadata/finalizers/0", ""},
		{"finalizers gone", ", finalizers: [a]", ", finalizers: []", "-/metadata/finalizers/0", "-/metadata/finalizers/0", ""},
		{"fields of servers (K11)", ", resourceVersion: \"1\", uid: x, managedFields: [], creationTimestamp: null, generation: 1", ", uid: y, resourceVersion: \"2\", creationTimestamp: \"2026-01-01T00:00:00Z\", ownerReferences: [{name: o}], generation: 7", "", "", ""},
	} {
		c.hub, c.member = "metadata: {name: a"+c.hub+"}", "metadata: {name: a"+c.member+"}\nstatus: {x: 1}"
		c.run(t, "apiVersion: example.com/v1\nkind: Thing\n", custom())
	}
}
