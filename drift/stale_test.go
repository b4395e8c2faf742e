package drift

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAFieldThatWasAppliedAndDroppedIsStale(t *testing.T) {
	const applied = `"f:metadata":{"f:labels":{".":{},"f:a":{},"f:old":{}},"f:annotations":{".":{},"f:epoch.slipway.dev/p":{},"f:n":{}},"f:ownerReferences":{".":{}}},
		"f:spec":{"f:items":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}},"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:value":{}}},
		"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:port":{}}},
		"f:tags":{"v:\"p\"":{},"v:\"q\"":{}},"f:n":{},"f:token":{}},"f:status":{"f:x":{}}`
	hub := `{"metadata":{"name":"x","labels":{"a":"1"}},"spec":{"items":[{"name":"a"}],"ports":[{"port":53}],"tags":["p"]}}`
	member := func(more string) string {
		return `{"metadata":{"name":"x","labels":{"a":"1","old":"2","z":"3"},"annotations":{"epoch.slipway.dev/p":"1","n":"m"},"ownerReferences":[{"name":"o"}],
			"managedFields":[{"manager":"slipway","operation":"Apply","fieldsV1":{` + applied + `}}` + more + `]},
			"spec":{"items":[{"name":"b","value":1},{"name":"a"}],"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}],"tags":["q","p"],"n":1,"token":"` + planted + `"},"status":{"x":1}}`
	}
	r := reported(t, hub, member(""), Options{Manager: "slipway"})
	wantHidden(t, r)
	wantLines(t, r,
		`Stale /metadata/annotations/n + "m" by slipway`,
		`Stale /metadata/labels/old + "2" by slipway`,
		`Stale /spec/items/0 + {"name":"b","value":1} by slipway`,
		`Stale /spec/n + 1 by slipway`,
		`Stale /spec/ports/0 + {"port":53,"protocol":"UDP"} by slipway`,
		`Stale /spec/tags/0 + "q" by slipway`,
		`Stale /spec/token + "(redacted)" by slipway`,
	)
	if got := r.Differences[4].KeyPath; got != `.spec.ports[port=53,protocol="UDP"]` {
		t.Errorf("got the key path %s", got)
	}
	r = reported(t, hub, member(`,{"manager":"m","operation":"Update","fieldsV1":{"f:spec":{"f:n":{},"f:items":{"k:{\"name\":\"b\"}":{"f:value":{}}},"f:tags":{"v:\"q\"":{}},"f:ports":{"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{}}},"f:token":{}},"f:metadata":{"f:labels":{"f:old":{}}}}}`),
		Options{Manager: "slipway"})
	wantLines(t, r, `Stale /metadata/annotations/n + "m" by slipway`, `Stale /spec/items/0/name + "b" by slipway`)
	if r := reported(t, hub, member(""), Options{Manager: "other"}); r.Drifted() {
		t.Errorf("another manager's fields are stale: %v", lines(r))
	}
}

func TestInAFullComparisonAStaleFieldIsNotUnmanagedToo(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"a":1}}`,
		`{"metadata":{"name":"x","managedFields":[{"manager":"s","operation":"Apply","fieldsV1":{"f:spec":{"f:a":{},"f:b":{},"f:items":{".":{},"k:{\"name\":\"q\"}":{".":{},"f:name":{}}}}}}]},
		"spec":{"a":1,"b":2,"c":3,"items":[{"name":"q"}]}}`, Options{Comparison: Full, Manager: "s"})
	wantLines(t, r, `Stale /spec/b + 2 by s`, `Unmanaged /spec/c + 3`, `Stale /spec/items + [{"name":"q"}] by s`)
}

func TestAStaleItemOfAnAtomicListIsOneEntry(t *testing.T) {
	r := reported(t, `{"metadata":{"name":"x"},"spec":{"plain":[{"id":1}]}}`,
		`{"metadata":{"name":"x","managedFields":[{"manager":"s","operation":"Apply","fieldsV1":{"f:spec":{"f:plain":{"k:{\"id\":1}":{".":{}},"k:{\"id\":2}":{".":{}}}}}}]},
		"spec":{"plain":[{"id":1},{"id":2}]}}`, Options{Manager: "s"})
	wantLines(t, r, `Stale /spec/plain/1 + {"id":2} by s`)
	if got := r.Differences[0].AtomicPath; got != "/spec/plain" {
		t.Errorf("the list is %q", got)
	}
}

func TestStaleFieldsFromTheKubectlAnnotation(t *testing.T) {
	last := `{"metadata":{"labels":{"a":"1","old":"1"},"finalizers":["f","g"],"annotations":{"deployment.kubernetes.io/revision":"1"}},
		"spec":{"gone":{"x":1},"never":1,"items":[{"name":"a","value":1,"more":2},{"name":"b"},{"name":"b"},{"name":"c"}],"list":[{"a":1}],"null":null}}`
	quoted := strings.NewReplacer(`"`, `\"`, "\n", " ", "\t", " ").Replace(last)
	member := `{"metadata":{"name":"x","labels":{"a":"1","old":"1"},"finalizers":["g"],"annotations":{"deployment.kubernetes.io/revision":"2","` + lastApplied + `":"` + quoted + `"}},
		"spec":{"gone":{"x":2},"items":[{"name":"b"},{"name":"a","value":1,"more":3}],"list":[{"a":1}],"null":5}}`
	hub := `{"metadata":{"name":"x","labels":{"a":"1"}},"spec":{"items":[{"name":"a","value":1}],"list":[{}]}}`
	r := reported(t, hub, member, Options{})
	wantLines(t, r,
		`Stale /metadata/finalizers/0 + "g"`,
		`Stale /metadata/labels/old + "1"`,
		`Stale /spec/gone + {"x":2}`,
		`Stale /spec/items/0 + {"name":"b"}`,
		`Stale /spec/items/1/more + 3`,
		`Unmanaged /spec/list/0/a + 1`,
	)
	applied := strings.Replace(member, `"finalizers"`, `"managedFields":[{"manager":"s","operation":"Apply","fieldsV1":{}}],"finalizers"`, 1)
	r = reported(t, hub, applied, Options{Manager: "s"})
	wantLines(t, r, `Unmanaged /spec/list/0/a + 1`)
}

func TestMalformedLastAppliedAnnotationIsIgnored(t *testing.T) {
	for _, text := range []string{"{", "5", `[1]`, `\"x\"`, `{\"spec\":5}`, `{\"spec\":{\"a\":{\"b\":1}}}`} {
		r := reported(t, `{"metadata":{"name":"x"},"spec":{"a":1}}`,
			`{"metadata":{"name":"x","annotations":{"`+lastApplied+`":"`+text+`"}},"spec":{"a":1}}`, Options{})
		if r.Drifted() {
			t.Errorf("%s: got %v", text, lines(r))
		}
	}
}

func cleanMember(t testing.TB) (*Manifest, map[string]any) {
	hub := objectFrom(t, `{"metadata":{"name":"x"},"spec":{"a":1,"items":[{"name":"p"}]}}`)
	m, err := Compile(hub, Options{Manager: "s", Schemas: keyedSchema()})
	if err != nil {
		t.Fatal(err)
	}
	return m, fromJSON(t, `{"metadata":{"name":"x","managedFields":[{"manager":"s","operation":"Apply","fieldsV1":{"f:spec":{"f:a":{},"f:items":{"k:{\"name\":\"p\"}":{".":{},"f:name":{}}}}}},
		{"manager":"c","operation":"Update","subresource":"status","fieldsV1":{"f:status":{}}}]},"spec":{"a":1,"items":[{"name":"p"}]}}`)
}

func TestStaleSearchAllocatesNothing(t *testing.T) {
	m, member := cleanMember(t)
	bare := fromJSON(t, `{"metadata":{"name":"x"},"spec":{"a":1}}`)
	for _, o := range []map[string]any{member, bare} {
		m.stale.find(o)
		if n := testing.AllocsPerRun(100, func() {
			if m.stale.find(o) != nil {
				t.Error("nothing is stale")
			}
		}); n != 0 {
			t.Errorf("got %v allocations", n)
		}
	}
}

func TestAStaleFieldThatIsTooDeepIsAnError(t *testing.T) {
	m, member := cleanMember(t)
	member["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
		"manager": "s", "operation": "Apply", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:old": map[string]any{}}},
	}}
	for levels, fails := range map[int]bool{MaxDepth - 3: false, MaxDepth - 2: true} {
		member["spec"].(map[string]any)["old"] = deep(levels)
		r, err := m.Compare(&unstructured.Unstructured{Object: member}, nil)
		if (err != nil) != fails || !fails && r.Total != 1 {
			t.Errorf("%d levels: got %d differences and %v", levels, r.Total, err)
		}
	}
}

func TestAppliedFieldsBeyondTheLimitsAreNotRemembered(t *testing.T) {
	m, member := cleanMember(t)
	fields := managedFields(member)[0].(map[string]any)["fieldsV1"].(map[string]any)
	fields["z:of a later server"] = deep(10 * MaxDepth)
	if found := m.stale.find(member); found != nil {
		t.Errorf("got %v", found)
	}
	if n := len(m.stale.seen); n != 0 {
		t.Errorf("%d sets are remembered", n)
	}
}

func TestManyMembersMayBeReadAtOnce(t *testing.T) {
	m, _ := cleanMember(t)
	var wait sync.WaitGroup
	for i := range 4 * maxCached {
		wait.Go(func() {
			_, member := cleanMember(t)
			spec := member["spec"].(map[string]any)
			spec[fmt.Sprint("f", i)] = int64(1)
			entry := managedFields(member)[0].(map[string]any)
			entry["fieldsV1"].(map[string]any)["f:spec"].(map[string]any)[fmt.Sprint("f:f", i)] = map[string]any{}
			r, err := m.Compare(&unstructured.Unstructured{Object: member}, nil)
			if err != nil || len(r.Differences) != 1 || r.Differences[0].Path != fmt.Sprint("/spec/f", i) {
				t.Errorf("got %v, %v", lines(r), err)
			}
		})
	}
	wait.Wait()
	if n := len(m.stale.seen); n > maxCached {
		t.Errorf("%d sets are remembered", n)
	}
}

func BenchmarkStaleNothing(b *testing.B) {
	m, member := cleanMember(b)
	b.ReportAllocs()
	for b.Loop() {
		m.stale.find(member)
	}
}
