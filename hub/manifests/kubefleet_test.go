package manifests_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/compat"
)

// facts are the facts of a schema about a field by keyword, and "messages", the messages of its
// rules. In facts of these definitions, "without" are KubeFleet's messages that they lack, and null
// marks a keyword that they lack.
type facts = map[string]any

// factColumn is a column of kubectl's tables.
type factColumn struct {
	Name     string `json:"name"`
	JSONPath string `json:"jsonPath"`
	Priority int64  `json:"priority,omitempty"`
}

// factTable has facts about parts of kinds, or the differences of these definitions and the reason.
type factTable struct {
	Names   map[string][]string `json:"names,omitempty"`
	Columns []factColumn        `json:"columns,omitempty"`
	Fields  map[string]facts    `json:"fields,omitempty"`
	Why     string              `json:"why,omitempty"`
}

// factBlock is a block of testdata/kubefleet.yaml. Its facts are about fields below each element of
// In, which is a kind followed by the path of a field.
type factBlock struct {
	In []string `json:"in"`
	factTable
	Ours []factTable `json:"ours,omitempty"`
}

// told has the facts of all blocks about a kind.
type told struct {
	names   map[string][]string
	columns map[string]factColumn
	fields  map[string]facts
}

// TestDefaultsLimitsAndMessagesAreKubeFleets compares every default, limit and message of the
// definitions for KubeFleet 0.18 with testdata/kubefleet.yaml, in both versions and in both
// directions: additional and missing facts fail. For a status it compares only the facts in the
// file.
func TestDefaultsLimitsAndMessagesAreKubeFleets(t *testing.T) {
	all := toldOf(t)
	for _, crd := range crdsOf(t, compat.KubeFleet018) {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		want, ok := all[kind]
		delete(all, kind)
		if !ok {
			t.Errorf("%s: nothing is told of it", kind)
			continue
		}
		for name, list := range want.names {
			if got, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", name); !slices.Equal(got, list) {
				t.Errorf("%s: %s %q, want %q", kind, name, got, list)
			}
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			compareVersion(t, kind, v.(map[string]any), want)
		}
	}
	for kind := range all {
		t.Errorf("%s is not served", kind)
	}
}

func compareVersion(t *testing.T, kind string, version map[string]any, want *told) {
	t.Helper()
	at := kind + "." + version["name"].(string)
	columns, _, _ := unstructured.NestedSlice(version, "additionalPrinterColumns")
	got := map[string]factColumn{}
	for _, c := range columns {
		var column factColumn
		remarshal(t, c, &column)
		got[column.Name] = column
	}
	for name, c := range want.columns {
		if got[name] != c {
			t.Errorf("%s: column %+v, want %+v", at, got[name], c)
		}
	}
	schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	fields := map[string]facts{}
	collectFacts(schema, "", fields)
	for path, f := range fields {
		if _, told := want.fields[path]; !told && !strings.HasPrefix(path, "status") && !strings.HasPrefix(path, "sourceStatus") {
			t.Errorf("%s: %s: nothing is told of %v", at, path, f)
		}
	}
	for path, f := range want.fields {
		if diff := gocmp.Diff(plain(t, f), plain(t, fields[path])); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", at, path, diff)
		}
	}
}

// factKeywords are the compared keywords.
var factKeywords = []string{
	"default", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
	"minProperties", "maxProperties", "pattern", "required",
}

// collectFacts collects the facts of a schema and its fields, except the fields of conditions and
// label selectors, which are Kubernetes' own.
func collectFacts(s map[string]any, at string, into map[string]facts) {
	if s["x-kubernetes-list-type"] == "map" || strings.HasSuffix(at, "labelSelector") || strings.HasSuffix(at, "]].condition") {
		return
	}
	found := facts{}
	for _, k := range factKeywords {
		if v, ok := s[k]; ok {
			found[k] = v
		}
	}
	rules, _ := s["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		have, _ := found["messages"].([]any)
		found["messages"] = append(have, messageOf(r.(map[string]any)))
	}
	if len(found) > 0 {
		into[at] = found
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		collectFacts(p.(map[string]any), strings.TrimPrefix(at+"."+name, "."), into)
	}
	for keyword, mark := range map[string]string{"items": "[]", "additionalProperties": "{}"} {
		if p, ok := s[keyword].(map[string]any); ok {
			collectFacts(p, at+mark, into)
		}
	}
}

// toldOf reads the file, by kind.
func toldOf(t *testing.T) map[string]*told {
	t.Helper()
	var blocks []factBlock
	readYAML(t, "testdata/kubefleet.yaml", &blocks)
	all := map[string]*told{}
	for _, b := range blocks {
		for _, in := range b.In {
			kind, at, _ := strings.Cut(in, " ")
			if all[kind] == nil {
				all[kind] = &told{map[string][]string{}, map[string]factColumn{}, map[string]facts{}}
			}
			all[kind].add(b.factTable, at)
		}
	}
	for _, b := range blocks {
		for _, ours := range b.Ours {
			if ours.Why == "" {
				t.Errorf("%s: a difference without a reason", b.In)
			}
			for _, in := range b.In {
				kind, at, _ := strings.Cut(in, " ")
				all[kind].differ(t, ours, at)
			}
		}
	}
	return all
}

func (k *told) add(f factTable, at string) {
	maps.Copy(k.names, f.Names)
	for _, c := range f.Columns {
		k.columns[c.Name] = c
	}
	for path, more := range f.Fields {
		have := k.field(at, path)
		for keyword, v := range more {
			if keyword == "messages" {
				list, _ := have[keyword].([]any)
				v = append(slices.Clone(list), v.([]any)...)
			}
			have[keyword] = v
		}
	}
}

// differ applies the differences of these definitions.
func (k *told) differ(t *testing.T, f factTable, at string) {
	t.Helper()
	for path, more := range f.Fields {
		have := k.field(at, path)
		without, _ := more["without"].([]any)
		list, _ := have["messages"].([]any)
		kept := slices.DeleteFunc(slices.Clone(list), func(m any) bool { return slices.Contains(without, m) })
		if len(list)-len(kept) != len(without) {
			t.Errorf("%s %s: without %q, but there are %q", at, path, without, list)
		}
		have["messages"] = kept
		for keyword, v := range more {
			if now, told := have[keyword]; keyword != "messages" && told && gocmp.Equal(now, v) {
				t.Errorf("%s %s: %s is no difference", at, path, keyword)
			}
		}
	}
	f.Fields = maps.Clone(f.Fields)
	for path, more := range f.Fields {
		more = maps.Clone(more)
		delete(more, "without")
		f.Fields[path] = more
	}
	k.add(f, at)
}

// field returns the facts about a field so far.
func (k *told) field(at, path string) facts {
	path = strings.Trim(at+"."+path, ".")
	if k.fields[path] == nil {
		k.fields[path] = facts{}
	}
	return k.fields[path]
}

// messageOf returns the message of a rule, with … for the values that its expression inserts.
func messageOf(rule map[string]any) string {
	expression, ok := rule["messageExpression"].(string)
	if !ok {
		return rule["message"].(string)
	}
	var message strings.Builder
	for part := range strings.SplitSeq(expression, " + ") {
		if text, ok := strings.CutPrefix(part, "'"); ok {
			message.WriteString(strings.TrimSuffix(text, "'"))
		} else {
			message.WriteString("…")
		}
	}
	return message.String()
}

// plain returns the facts to compare, without empty ones, and with sorted lists.
func plain(t *testing.T, f facts) facts {
	t.Helper()
	out := facts{}
	for keyword, v := range f {
		list, isList := v.([]any)
		if v == nil || isList && len(list) == 0 {
			continue
		}
		if isList {
			v = slices.Compact(slices.SortedFunc(slices.Values(list), func(a, b any) int { return cmp.Compare(a.(string), b.(string)) }))
		}
		var same any
		remarshal(t, v, &same)
		out[keyword] = same
	}
	return out
}

func remarshal(t *testing.T, from, into any) {
	t.Helper()
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
