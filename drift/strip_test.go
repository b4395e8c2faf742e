package drift

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	stripHub = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","labels":{"a":"1","slipway.dev/applied":"p"}},
		"spec":{"replicas":2,"paused":true,"template":{"spec":{"containers":[
			{"name":"app","image":"a:1","args":["p"],"ports":[{"containerPort":80}]},{"name":"log","image":"l:1"}]}}}}`
	stripOurs = `{"manager":"us","operation":"Apply","fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:replicas":{},"f:minReadySeconds":{},"f:template":{"f:spec":{
		"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:name":{},"f:image":{},"f:args":{}},"k:{\"name\":\"old\"}":{".":{},"f:name":{}}}}}}}}`
	stripTheirs = `{"manager":"hpa","operation":"Update","subresource":"scale","fieldsV1":{"f:spec":{"f:replicas":{}}}},
		{"manager":"cd","operation":"Apply","fieldsV1":{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"log\"}":{".":{},"f:name":{},"f:image":{}}}}}}}}`
)

func stripLive(managed string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","labels":{"a":"9","slipway.dev/applied":"q"},"managedFields":[` + managed + `]},
		"spec":{"replicas":7,"minReadySeconds":5,"template":{"spec":{"containers":[
			{"name":"log","image":"l:9"},{"name":"app","image":"a:9","args":["p","q"],"ports":[{"containerPort":80,"protocol":"TCP"}]},{"name":"old"}]}}}}`
}

// stripped returns the changes that Strip makes to the hub's object, as a merge patch.
func stripped(t *testing.T, hub, live string, rules ...IgnoreRule) string {
	t.Helper()
	obj, on := objectFrom(t, hub), &unstructured.Unstructured{}
	if live != "" {
		on = objectFrom(t, live)
	}
	objBefore, liveBefore := obj.DeepCopy(), on.DeepCopy()
	out := Strip(obj, on, rules, "us")
	if !cmp.Equal(objBefore, obj) || !cmp.Equal(liveBefore, on) {
		t.Error("an argument was changed")
	}
	text, err := json.Marshal(patch(obj.Object, out.Object))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func patch(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range before {
		now, ok := after[name]
		a, isMap := v.(map[string]any)
		b, still := now.(map[string]any)
		switch {
		case !ok:
			out[name] = nil
		case isMap && still:
			if p := patch(a, b); len(p) > 0 {
				out[name] = p
			}
		case !cmp.Equal(v, now):
			out[name] = now
		}
	}
	for name, v := range after {
		if _, ok := before[name]; !ok {
			out[name] = v
		}
	}
	return out
}

func TestStripLeavesIgnoredFieldsToTheirOwners(t *testing.T) {
	both := stripOurs + "," + stripTheirs
	containers := func(list string) string {
		return `{"spec":{"template":{"spec":{"containers":` + list + `}}}}`
	}
	const app = `{"args":["p"],"image":"a:1","name":"app","ports":[{"containerPort":80}]}`
	const log = `{"image":"l:1","name":"log"}`
	at := "/spec/template/spec/containers"
	for _, c := range []struct {
		name, managed string
		rule          IgnoreRule
		want          string
	}{
		{"another manager owns it", both, IgnoreRule{Pointers: []string{"/spec/replicas"}}, `{"spec":{"replicas":null}}`},
		{"we alone own it", stripOurs, IgnoreRule{Pointers: []string{"/spec/replicas"}}, `{"spec":{"replicas":7}}`},
		{"the live object lacks it", both, IgnoreRule{Pointers: []string{"/spec/paused"}}, `{}`},
		{"no manager owns it", stripTheirs, IgnoreRule{Pointers: []string{"/metadata/labels/a"}}, `{"metadata":{"labels":{"a":null}}}`},
		{"the owner is unknown", "", IgnoreRule{Pointers: []string{"/metadata/labels/a"}}, `{"metadata":{"labels":{"a":"9"}}}`},
		{"we alone own it and have it no longer", both, IgnoreRule{Pointers: []string{"/spec/minReadySeconds"}}, `{"spec":{"minReadySeconds":5}}`},
		{"without the class it goes", both, IgnoreRule{Pointers: []string{"/spec/minReadySeconds"}, Classes: []Class{Changed}}, `{}`},
		{"without the class it stays", both, IgnoreRule{Pointers: []string{"/spec/replicas"}, Classes: []Class{Stale}}, `{}`},
		{
			"an item by its key", both,
			IgnoreRule{Pointers: []string{at + "/[name=app]/image"}},
			containers(`[{"args":["p"],"image":"a:9","name":"app","ports":[{"containerPort":80}]},` + log + `]`),
		},
		{
			"a field of every item", both,
			IgnoreRule{Pointers: []string{at + "/*/image"}},
			containers(`[{"args":["p"],"image":"a:9","name":"app","ports":[{"containerPort":80}]},{"name":"log"}]`),
		},
		{"a whole item of another manager", both, IgnoreRule{Pointers: []string{at + "/[name=log]"}}, containers(`[` + app + `]`)},
		{"an item that we have no longer", both, IgnoreRule{Pointers: []string{at + "/[name=old]"}}, containers(`[` + app + `,` + log + `,{"name":"old"}]`)},
		{
			"an atomic list", both,
			IgnoreRule{Pointers: []string{at + "/[name=app]/args"}},
			containers(`[{"args":["p","q"],"image":"a:1","name":"app","ports":[{"containerPort":80}]},` + log + `]`),
		},
		{"what a manager wrote", both, IgnoreRule{Managers: []string{"hpa"}}, `{"spec":{"replicas":null}}`},
		{"what another manager wrote", both, IgnoreRule{Managers: []string{"x"}}, `{}`},
		{"what a manager wrote elsewhere", both, IgnoreRule{Managers: []string{"hpa"}, Pointers: []string{at}}, `{}`},
		{"another object", both, IgnoreRule{Name: "y", Pointers: []string{"/spec/replicas"}}, `{}`},
		{"classes alone", both, IgnoreRule{Classes: []Class{Changed}}, `{}`},
		{"a rule that is not valid", both, IgnoreRule{Pointers: []string{"spec"}}, `{}`},
		{"what identifies the object", both, IgnoreRule{Pointers: []string{"/metadata", "/kind"}, Classes: []Class{Changed}}, `{"metadata":{"labels":{"a":"9"}}}`},
	} {
		if diff := cmp.Diff(c.want, stripped(t, stripHub, stripLive(c.managed), c.rule)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestStripWithoutALiveObject(t *testing.T) {
	if got := stripped(t, stripHub, "", IgnoreRule{Pointers: []string{""}}); got != "{}" {
		t.Errorf("got %s", got)
	}
	obj := objectFrom(t, stripHub)
	if Strip(obj, nil, []IgnoreRule{{Pointers: []string{""}}}, "us") != obj || Strip(nil, nil, nil, "us") != nil {
		t.Error("there is another object")
	}
}

func TestStripFindsItemsOfUnknownKindsByManagedFields(t *testing.T) {
	hub := `{"metadata":{"name":"x"},"spec":{"parts":[{"id":1,"v":1},{"id":2,"v":1}],"plain":[{"v":1},{"v":2}],"tags":["a","b"]}}`
	live := `{"metadata":{"name":"x","managedFields":[{"manager":"us","operation":"Apply","fieldsV1":{"f:spec":{"f:plain":{},"f:tags":{"v:\"a\"":{}},"f:parts":{"k:{\"id\":1}":{".":{},"f:id":{},"f:v":{}}}}}},
		{"manager":"m","operation":"Update","fieldsV1":{"f:spec":{"f:tags":{"v:\"b\"":{}},"f:parts":{"k:{\"id\":2}":{"f:v":{}}}}}}]},
		"spec":{"parts":[{"id":2,"v":8},{"id":1,"v":9}],"plain":[{"v":1},{"v":9}],"tags":["b","a"]}}`
	got := stripped(t, hub, live, IgnoreRule{Pointers: []string{"/spec/parts/*/v", "/spec/plain/1/v", "/spec/tags/[=b]"}})
	if want := `{"spec":{"parts":[{"id":1,"v":9},{"id":2}],"plain":[{"v":1},{"v":9}],"tags":["a"]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
