package drift

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kinds "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/drift/schema"
)

// fromJSON decodes an object as a client of a server does.
func fromJSON(t testing.TB, text string) map[string]any {
	t.Helper()
	var head struct{ Kind string }
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if head.Kind == "" {
		text = `{"apiVersion":"x.example/v1","kind":"X",` + strings.TrimPrefix(text, "{")
		text = strings.Replace(text, ",}", "}", 1)
	}
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return o.Object
}

func objectFrom(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: fromJSON(t, text)}
}

// keyedSchema knows one kind: spec.items by name, spec.tags as a set, spec.token
// and spec.creds as secret.
func keyedSchema() schema.Source {
	text := &schema.Type{Kind: schema.String}
	item := &schema.Type{Kind: schema.Struct, Open: true, Fields: map[string]*schema.Field{
		"name": {Type: text}, "value": {}, "secret": {Type: text, Secret: true},
	}}
	spec := &schema.Type{Kind: schema.Struct, Open: true, Fields: map[string]*schema.Field{
		"items": {Type: &schema.Type{Kind: schema.List, List: schema.Keyed, Keys: []schema.Key{{Name: "name"}}, Elem: item}},
		"ports": {Type: &schema.Type{Kind: schema.List, List: schema.Keyed, Keys: []schema.Key{{Name: "port"}, {Name: "protocol", Default: "TCP"}}, Elem: &schema.Type{Kind: schema.Struct, Open: true}}},
		"tags":  {Type: &schema.Type{Kind: schema.List, List: schema.Set, Elem: text}},
		"token": {Type: text, Secret: true},
		"creds": {Type: &schema.Type{Kind: schema.Map}, Secret: true},
	}}
	x := &schema.Type{Kind: schema.Struct, Open: true, Fields: map[string]*schema.Field{"spec": {Type: spec}}}
	return schema.Join(schema.SourceFunc(func(kind kinds.GroupVersionKind) *schema.Type {
		if kind.Kind != "X" {
			return nil
		}
		return x
	}), schema.Builtin())
}

// reported compares two objects of the kind X, unless they say another, and
// returns the report.
func reported(t testing.TB, hub, member string, o Options) Report {
	t.Helper()
	if o.Schemas == nil {
		o.Schemas = keyedSchema()
	}
	var m *unstructured.Unstructured
	if member != "" {
		m = objectFrom(t, member)
	}
	r, err := Compare(objectFrom(t, hub), m, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines writes the entries of a report, one in a line.
func lines(r Report) []string {
	var out []string
	for _, d := range r.Differences {
		line := fmt.Sprintf("%s %s", d.Class, d.Path)
		if d.HubPath != "" {
			line += " hub " + d.HubPath
		}
		if d.Hub != nil {
			line += " - " + string(d.Hub)
		}
		if d.Member != nil {
			line += " + " + string(d.Member)
		}
		if d.Note != "" {
			line += " (" + d.Note + ")"
		}
		if d.Owner != nil {
			line += " by " + d.Owner.Manager
		}
		out = append(out, line)
	}
	return out
}

func wantLines(t *testing.T, r Report, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAReportIsSortedAndNamesBothPlacesAndTheOwner(t *testing.T) {
	r := reported(t,
		`{"metadata":{"name":"x"},"spec":{"items":[{"name":"a","value":1},{"name":"b","value":2},{"name":"c","value":3}],"l10":1,"l9":1}}`,
		`{"metadata":{"name":"x","generation":7,"managedFields":[
			{"manager":"kubectl-edit","operation":"Update","time":"2026-01-02T03:04:05Z","fieldsV1":{"f:spec":{"f:items":{"k:{\"name\":\"b\"}":{"f:value":{}}},"f:l9":{}}}}]},
		"spec":{"items":[{"name":"b","value":5},{"name":"a","value":1}],"l10":2,"l9":2,"more":true}}`,
		Options{Comparison: Full})
	wantLines(t, r,
		`Order /spec/items - [{"name":"a","value":1},{"name":"b","value":2},{"name":"c","value":3}] + [{"name":"b","value":5},{"name":"a","value":1}] by kubectl-edit`,
		`Changed /spec/items/0/value hub /spec/items/1/value - 2 + 5 by kubectl-edit`,
		`Missing /spec/items/2 - {"name":"c","value":3}`,
		`Changed /spec/l9 - 1 + 2 by kubectl-edit`,
		`Changed /spec/l10 - 1 + 2`,
		`Unmanaged /spec/more + true`,
	)
	if got := r.Differences[1]; got.KeyPath != `.spec.items[name="b"].value` || *got.Owner != (Owner{Manager: "kubectl-edit", Operation: "Update", Time: "2026-01-02T03:04:05Z"}) {
		t.Errorf("got %+v by %+v", got, got.Owner)
	}
	if r.Generation != 7 || r.State != Present || r.Total != 6 || r.Truncated || r.Fingerprint == "" {
		t.Errorf("got %+v", r)
	}
}

func TestAnObjectThatIsNotThereIsOneMissingEntry(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"a":1}}`, "", Options{})
	wantLines(t, r, `Missing  - {"apiVersion":"x.example/v1","kind":"X","metadata":{"name":"x"},"spec":{"a":1}}`)
	if r.State != Absent || r.Fingerprint == "" {
		t.Errorf("got %+v", r)
	}
}

func TestTerminatingObject(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x","deletionTimestamp":"2026-01-01T00:00:00Z"}}`, Options{})
	if r.State != Terminating || r.Drifted() || r.Differences == nil || r.Fingerprint != "" {
		t.Errorf("got %+v", r)
	}
}

func TestAReportIsCappedAndSaysSo(t *testing.T) {
	hub, member := fromJSON(t, `{"metadata":{"name":"x"}}`), fromJSON(t, `{"metadata":{"name":"x"}}`)
	a, b := map[string]any{}, map[string]any{}
	for i := range 150 {
		key := fmt.Sprint("f", i)
		a[key], b[key] = int64(0), int64(1)
	}
	hub["spec"], member["spec"] = a, b
	for max, want := range map[int]int{0: 100, 3: 3, 200: 150} {
		r, err := Compare(&unstructured.Unstructured{Object: hub}, &unstructured.Unstructured{Object: member}, Options{MaxDifferences: max})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Differences) != want || r.Total != 150 || r.Truncated != (want < 150) || r.Differences[2].Path != "/spec/f2" {
			t.Errorf("%d: got %d of %d, %v", max, len(r.Differences), r.Total, r.Truncated)
		}
	}
}

// Threat T8: a long name is in every path below it.
func TestNamesOfUnreasonableLengthDoNotMakeAReportLong(t *testing.T) {
	hub, member := fromJSON(t, `{"metadata":{"name":"x"}}`), fromJSON(t, `{"metadata":{"name":"x"}}`)
	a, b := map[string]any{}, map[string]any{}
	for i := range 20_000 {
		key := fmt.Sprint("f", i)
		a[key], b[key] = int64(0), int64(1)
	}
	long := strings.Repeat("n", 400_000)
	hub["spec"], member["spec"] = map[string]any{long: a}, map[string]any{long: b}
	r, err := Compare(&unstructured.Unstructured{Object: hub}, &unstructured.Unstructured{Object: member}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil || len(text) > 2*maxReportBytes || !r.Truncated || r.Total != 20_000 {
		t.Errorf("got %d bytes, %d of %d, %v", len(text), len(r.Differences), r.Total, err)
	}
}

func TestAFingerprintIsTheSameForTheSameDifferences(t *testing.T) {
	hub := `{"metadata":{"name":"x"},"spec":{"items":[{"name":"a","value":1},{"name":"b","value":2}],"tags":["p"],"n":1}}`
	o := Options{Comparison: Full}
	first := reported(t, hub, `{"metadata":{"name":"x"},"spec":{"items":[{"name":"s"},{"name":"a","value":5},{"name":"b","value":2}],"tags":["q","p"],"n":1}}`, o)
	for text, same := range map[string]bool{
		`{"metadata":{"name":"x","generation":5,"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}]},"spec":{"items":[{"name":"a","value":5},{"name":"s"},{"name":"b","value":2}],"tags":["p","q"],"n":1.0}}`: true,
		`{"metadata":{"name":"x"},"spec":{"items":[{"name":"s"},{"name":"a","value":6},{"name":"b","value":2}],"tags":["q","p"],"n":1}}`:                                                                             false,
		`{"metadata":{"name":"x"},"spec":{"items":[{"name":"s"},{"name":"a","value":1},{"name":"b","value":5}],"tags":["q","p"],"n":1}}`:                                                                             false,
		`{"metadata":{"name":"x"},"spec":{"items":[{"name":"s"},{"name":"a","value":5},{"name":"b","value":2}],"tags":["r","p"],"n":1}}`:                                                                             false,
		`{"metadata":{"name":"x"},"spec":{"items":[{"name":"s"},{"name":"a","value":5},{"name":"b","value":2}],"tags":["q","p"]}}`:                                                                                   false,
	} {
		got := reported(t, hub, text, o)
		if (got.Fingerprint == first.Fingerprint) != same || len(got.Fingerprint) != 32 {
			t.Errorf("%s: got %s for\n%s\n%s", text, got.Fingerprint, strings.Join(lines(got), "\n"), strings.Join(lines(first), "\n"))
		}
	}
}

func TestFingerprintCoversOmittedDifferences(t *testing.T) {
	hub := `{"metadata":{"name":"x"},"spec":{"a":1,"b":1}}`
	o := Options{MaxDifferences: 1}
	x := reported(t, hub, `{"metadata":{"name":"x"},"spec":{"a":2,"b":2}}`, o)
	y := reported(t, hub, `{"metadata":{"name":"x"},"spec":{"a":2,"b":3}}`, o)
	if x.Fingerprint == y.Fingerprint {
		t.Error("other differences have the same fingerprint")
	}
}

func TestAnOwnerIsPrintable(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"a":1}}`,
		`{"metadata":{"name":"x","managedFields":[{"manager":"\u001b[31m`+strings.Repeat("m", 500)+`","operation":"Up\u0007date","time":"now","fieldsV1":{"f:spec":{"f:a":{}}}}]},"spec":{"a":2}}`, Options{})
	got := r.Differences[0].Owner
	if len(got.Manager) > 140 || strings.ContainsAny(got.Manager+got.Operation, "\x1b\x07") || got.Time != "" {
		t.Errorf("got %q", *got)
	}
}

func TestMalformedManagedFieldsAreWarnings(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"a":1}}`,
		`{"metadata":{"name":"x","managedFields":[{"manager":"m","fieldsV1":{"f:spec":5}},"x"]},"spec":{"a":2}}`, Options{})
	if len(r.Warnings) != 2 || len(r.Differences) != 1 {
		t.Errorf("got %q", r.Warnings)
	}
}

func TestEveryProblemOfTheOptionsIsReportedAtOnce(t *testing.T) {
	_, err := Compile(objectFrom(t, `{"metadata":{"name":"x"}}`), Options{
		Comparison: "Some", MaxDifferences: -1, MaxValueBytes: 10, Secrets: []string{"/ok", "", "spec"},
		Ignore: []IgnoreRule{{Pointers: []string{"/a"}}, {Kind: "X"}, {Pointers: []string{"/a", "b", "/[x"}}, {Managers: []string{""}}, {Classes: []Class{"Odd"}}},
	})
	if err == nil {
		t.Fatal("there is no error")
	}
	for _, want := range []string{
		"comparison: ", "maxDifferences: ", "maxValueBytes: ", "secrets[1]: ", "secrets[2]: ",
		"ignore[1]: ", "ignore[2].pointers[1]: ", "ignore[2].pointers[2]: ", "ignore[3].managers[0]: ", "ignore[4].classes[0]: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s%v", want, err)
		}
	}
}

func TestWarningsAreCapped(t *testing.T) {
	var entries []string
	for i := range 100 {
		entries = append(entries, fmt.Sprintf(`{"manager":"m%d","fieldsV1":5}`, i))
	}
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"a":1}}`,
		`{"metadata":{"name":"x","managedFields":[`+strings.Join(entries, ",")+`]},"spec":{"a":2}}`, Options{})
	if len(r.Warnings) != maxWarnings+1 || r.Warnings[maxWarnings] != "and 80 more" {
		t.Errorf("got %d: %q", len(r.Warnings), r.Warnings)
	}
}

// driftedPair is a Deployment with one change.
func driftedPair(b *testing.B) (*Manifest, *unstructured.Unstructured) {
	const spec = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","namespace":"y","labels":{"app":"x"}%s},"spec":{"replicas":%d,
		"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"app","image":"i:1","ports":[{"containerPort":80}]}]}}}}`
	m, err := Compile(objectFrom(b, fmt.Sprintf(spec, "", 1)), Options{})
	if err != nil {
		b.Fatal(err)
	}
	managed := `,"managedFields":[{"manager":"slipway","operation":"Apply","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:name":{},"f:image":{},
		"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}}]`
	return m, objectFrom(b, fmt.Sprintf(spec, managed, 2))
}

func BenchmarkReportOneChange(b *testing.B) {
	m, member := driftedPair(b)
	b.ReportAllocs()
	for b.Loop() {
		if r, err := m.Compare(member, nil); err != nil || r.Total != 1 {
			b.Fatal(r, err)
		}
	}
}
