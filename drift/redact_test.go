package drift

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// planted is in every value of the tests that must not be shown.
const planted = "hunter2"

// b64 is planted as the data of a Secret holds it.
func b64() string { return base64.StdEncoding.EncodeToString([]byte(planted)) }

// wantHidden fails the test if a report contains a planted value.
func wantHidden(t *testing.T, r Report) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	all := string(text) + fmt.Sprintf("%+v", r)
	for _, s := range []string{planted, b64(), base64.RawStdEncoding.EncodeToString([]byte(planted))[:8]} {
		if strings.Contains(all, s) {
			t.Errorf("%q is shown:\n%s", s, strings.Join(lines(r), "\n"))
		}
	}
}

func TestSecretValuesAreRedacted(t *testing.T) {
	member := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"a":"` + planted + `9","kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"gone\":\"` + b64() + `\"}}"},
		"managedFields":[{"manager":"m","fieldsV1":{"f:data":{"f:a":{}}}}]},
		"data":{"a":"` + b64() + `","b":"` + b64() + `","gone":"` + b64() + `"},"type":"Opaque"}`
	hub := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"a":"` + planted + `8"}},
		"data":{"a":"AAAA","c":"` + b64() + `"},"stringData":{"d":"` + planted + `"},"type":"kubernetes.io/tls"}`
	for _, key := range []string{"", "k"} {
		r := reported(t, hub, member, Options{Comparison: Full, SecretKey: []byte(key)})
		wantHidden(t, r)
		if key == "" {
			wantLines(t, r,
				`Changed /data/a - "(redacted)" + "(redacted)" by m`,
				`Unmanaged /data/b + "(redacted)"`,
				`Missing /data/c - "(redacted)"`,
				`Missing /data/d hub /stringData/d - "(redacted)"`,
				`Stale /data/gone + "(redacted)"`,
				`Changed /metadata/annotations/a - "(redacted)" + "(redacted)"`,
				`Changed /type - "kubernetes.io/tls" + "Opaque" (immutable)`,
			)
		}
	}
}

func TestTagsOfSecretsCompareEqualValues(t *testing.T) {
	hub := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"AAAA","b":"` + b64() + `"}}`
	member := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"` + b64() + `"}}`
	r := reported(t, hub, member, Options{SecretKey: []byte("k")})
	wantHidden(t, r)
	a, b := r.Differences[0], r.Differences[1]
	if string(a.Member) != string(b.Hub) || string(a.Hub) == string(a.Member) || !strings.HasPrefix(string(a.Hub), `"(redacted `) || len(a.Hub) != len(`"(redacted 01234567)"`) {
		t.Errorf("got %s, %s and %s", a.Hub, a.Member, b.Hub)
	}
	other := reported(t, hub, member, Options{SecretKey: []byte("l")})
	if string(other.Differences[0].Hub) == string(a.Hub) || other.Fingerprint == r.Fingerprint {
		t.Error("another key makes the same tag")
	}
}

func TestMissingSecretShowsOnlyKeys(t *testing.T) {
	r := reported(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"a":"`+planted+`"}},"data":{"a":"`+b64()+`"},"stringData":{"b":"`+planted+`"}}`, "", Options{})
	wantHidden(t, r)
	if got := string(r.Differences[0].Hub); !strings.Contains(got, `"data":{"a":"(redacted)","b":"(redacted)"}`) {
		t.Errorf("got %s", got)
	}
	r = reported(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"`+b64()+`"}}`, Options{Comparison: Full})
	wantHidden(t, r)
}

func TestAMisspeltFieldOfASecretIsHidden(t *testing.T) {
	r := reported(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"Data":{"a":"`+planted+`"},"extra":"`+planted+`","l":["`+planted+`"]}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"Data":{"a":"`+planted+`2"},"extra":["`+planted+`2"]}`, Options{})
	wantHidden(t, r)
	if r.Total != 3 {
		t.Errorf("got %v", lines(r))
	}
}

func TestASecretInsideOfAnotherObjectIsHidden(t *testing.T) {
	inner := func(data string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"n":"` + planted + `"}},"data":{"p":"` + data + `"},"stringData":"` + planted + `"}`
	}
	hub := `{"metadata":{"name":"x"},"spec":{"template":` + inner("AAAA") + `,"other":[` + inner("AAAA") + `],"n":` + inner(planted) + `}}`
	member := `{"metadata":{"name":"x"},"spec":{"template":` + inner(b64()) + `,"other":[` + inner(b64()) + `],"m":` + inner(planted) + `}}`
	r := reported(t, hub, member, Options{Comparison: Full})
	wantHidden(t, r)
	if r.Differences[0].Path != "/spec/m" || !strings.Contains(string(r.Differences[0].Member), `"data":{"p":"(redacted)"}`) {
		t.Errorf("got %v", lines(r))
	}
}

func TestLastAppliedIsHiddenInAnyKind(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"template":{"metadata":{}}}}`,
		`{"metadata":{"name":"x"},"spec":{"template":{"metadata":{"annotations":{"`+lastApplied+`":"`+planted+`","a":"b"}}}}}`, Options{Comparison: Full})
	wantHidden(t, r)
	if len(r.Differences) != 1 || !strings.Contains(string(r.Differences[0].Member), `"a":"b"`) {
		t.Errorf("got %v", lines(r))
	}
}

func TestSecretsMarkedByASchemaAreRedacted(t *testing.T) {
	r := reported(t,
		`{"metadata":{"name":"x"},"spec":{"token":"`+planted+`","creds":{"`+planted+`":{"deep":"`+planted+`"},"a":"b"},"items":[{"name":"a","secret":"`+planted+`"}]}}`,
		`{"metadata":{"name":"x"},"spec":{"token":"x","creds":{"`+planted+`":{"deep":"y"},"b":"`+planted+`"},"items":[{"name":"z","secret":"`+planted+`"}]}}`, Options{Comparison: Full})
	wantHidden(t, r)
	wantLines(t, r,
		`Changed /spec/creds - "(redacted)" + "(redacted)"`,
		`Missing /spec/items/0 - {"name":"a","secret":"(redacted)"}`,
		`Unmanaged /spec/items/0 + {"name":"z","secret":"(redacted)"}`,
		`Changed /spec/token - "(redacted)" + "(redacted)"`,
	)
}

func TestSecretsNamedByPointersAreRedacted(t *testing.T) {
	hub := `{"metadata":{"name":"x"},"spec":{"items":[{"name":"app","value":"` + planted + `","v":"shown"},{"name":"other","value":"shown"}],
		"tags":["` + planted + `"],"ports":[{"port":"` + planted + `","a":1}],"m":{"a":{"b":"` + planted + `"}},"l":["` + planted + `"]}}`
	member := `{"metadata":{"name":"x"},"spec":{"items":[{"name":"app","value":"` + planted + `2","v":"seen"},{"name":"other","value":"seen"}],
		"tags":["` + planted + `1"],"ports":[{"port":"` + planted + `","a":2}],"m":{"a":{"b":"x","` + planted + `":1}},"l":["x"]}}`
	o := Options{Comparison: Full, Secrets: []string{
		"/spec/items/[name=app]/value", "/spec/tags/*", "/spec/ports/*/port", "/spec/m/*", "/spec/l/0",
	}}
	r := reported(t, hub, member, o)
	wantHidden(t, r)
	wantLines(t, r,
		`Changed /spec/items/0/v - "shown" + "seen"`,
		`Changed /spec/items/0/value - "(redacted)" + "(redacted)"`,
		`Changed /spec/items/1/value - "shown" + "seen"`,
		`Changed /spec/l/0 - "(redacted)" + "(redacted)"`,
		`Changed /spec/m/a - "(redacted)" + "(redacted)"`,
		`Changed /spec/ports/0/a - 1 + 2`,
		`Missing /spec/tags/0 - "(redacted)"`,
		`Unmanaged /spec/tags/0 + "(redacted)"`,
	)
	for _, d := range r.Differences {
		if d.Path == "/spec/ports/0/a" && d.KeyPath != `.spec.ports[port="(redacted)",protocol="TCP"].a` {
			t.Errorf("got the key path %s", d.KeyPath)
		}
	}
	o.SecretKey = []byte("k")
	wantHidden(t, reported(t, hub, member, o))
}

func TestAnIndexHidesTheItemsOfBothSides(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"items":[{"name":"a","value":"`+planted+`"},{"name":"b","value":"shown"}]}}`,
		`{"metadata":{"name":"x"},"spec":{"items":[{"name":"b","value":"`+planted+`2"},{"name":"a","value":"seen"}]}}`,
		Options{Secrets: []string{"/spec/items/0/value"}})
	wantHidden(t, r)
	if r.Total != 2 {
		t.Errorf("got %v", lines(r))
	}
}

func TestTheNoteOfASecretDoesNotCompareIt(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"token":"a b"}}`, `{"metadata":{"name":"x"},"spec":{"token":"ab"}}`, Options{})
	if r.Differences[0].Note != "" {
		t.Errorf("got the note %q", r.Differences[0].Note)
	}
}

func TestAFingerprintOfSecretsIsNoDigestOfThem(t *testing.T) {
	hub := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"AAAA"}}`
	member := func(v string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"` + v + `"}}`
	}
	x, y := reported(t, hub, member("BBBB"), Options{}), reported(t, hub, member(b64()), Options{})
	if x.Fingerprint != y.Fingerprint {
		t.Error("without a key, a fingerprint distinguishes values of secrets")
	}
}

// Threat T11: for all objects, no report contains values planted in secret places.
func FuzzNothingSecretIsShown(f *testing.F) {
	f.Add(`{"a":{"b":["SECRET"]},"SECRET":1}`, `{"a":"SECRET"}`, true)
	f.Add(`"SECRET"`, `["SECRET",{"SECRET":"SECRET"}]`, false)
	f.Add(`null`, `{"":null,"x":"SECRET"}`, true)
	f.Fuzz(func(t *testing.T, hubText, memberText string, keyed bool) {
		var hub, member any
		if !decodesTo(hubText, &hub) || !decodesTo(memberText, &member) {
			return
		}
		object := func(v any) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "x.example/v1", "kind": "X", "metadata": map[string]any{"name": "x"},
				"spec": map[string]any{
					"token": v, "creds": v, "marked": v, "list": []any{v},
					"items": []any{map[string]any{"name": "a", "secret": v}},
					"inner": map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"x": v}, "stringData": v},
				},
			}}
		}
		o := Options{Comparison: Full, Schemas: keyedSchema(), Secrets: []string{"/spec/marked", "/spec/list/*", "/spec/inner/stringData"}}
		if keyed {
			o.SecretKey = []byte("k")
		}
		r, err := Compare(object(hub), object(member), o)
		if err != nil {
			if strings.Contains(err.Error(), planted) {
				t.Errorf("it is in the error %v", err)
			}
			return
		}
		text, _ := json.Marshal(r)
		if all := fmt.Sprintf("%s %+v", text, r); strings.Contains(all, planted) {
			t.Errorf("it is shown: %s", strings.Join(lines(r), "\n"))
		}
	})
}

// decodesTo decodes JSON after replacing SECRET by the planted value.
func decodesTo(text string, v *any) bool {
	if strings.Contains(text, `\`) {
		return false
	}
	var wrapped unstructured.Unstructured
	err := wrapped.UnmarshalJSON([]byte(`{"kind":"X","v":` + strings.ReplaceAll(text, "SECRET", planted) + "}"))
	*v = wrapped.Object["v"]
	return err == nil
}
