package member_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// strict are objects with parts that a server-side apply refuses; NS stands for the namespace,
// and V for a value.
const strict = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.NS.example.com}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {plural: databases, singular: database, kind: Database, listKind: DatabaseList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}, roles: {type: array, items: {type: object, properties: {name: {type: string}}}}}}}}}
---
apiVersion: NS.example.com/v1
kind: Database
metadata: {name: d, namespace: NS}
spec: {size: V, roles: [{name: app, color: red}, {name: ro}], notInSchema: {x: 1}}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: web, namespace: NS}
template:
  bogus: true
  metadata: {labels: {app: web}}
  spec:
    terminationGracePeriodSeconds: 10
    containers:
    - {name: web, image: "web:1", env: [{name: JAVA_OPTS, value: "1"}, {name: OTHER, value: "1"}, {name: JAVA_OPTS, value: V}], ports: [{containerPort: 80, name: a}, {containerPort: 80, name: b}]}
`

// strictIn returns the objects of strict.
func strictIn(t *testing.T, namespace, value string) (all []*unstructured.Unstructured) {
	t.Helper()
	for text := range strings.SplitSeq(strings.NewReplacer("NS", namespace, "V}", value+"}", "V,", value+",").Replace(strict), "---\n") {
		obj := &unstructured.Unstructured{}
		text, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = obj.UnmarshalJSON(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, obj)
	}
	return all
}

// TestClientSideApplyIsAsLenientAsKubectl rolls out objects with fields that the schema lacks
// and with keys that items of a list share. The run reports the dropped parts, which are no drift
// before and after a change.
func TestClientSideApplyIsAsLenientAsKubectl(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	c := connTo(t, s)
	r := newRollout(t, ns, s.Config(), placement.Cluster{Name: "one"})
	r.start()
	declare := func(kind apply.Type, value string) {
		t.Helper()
		p := fleet.Placement{Name: ns, ApplyStrategy: apply.Strategy{Type: kind, WhenToApply: apply.Always}}
		for _, obj := range strictIn(t, ns, value) {
			if err := r.source.Put(obj); err != nil {
				t.Fatal(err)
			}
			id := snapshot.IDOf(obj)
			p.Selectors = append(p.Selectors, snapshot.Selector{Group: id.Group, Version: id.Version, Kind: id.Kind, Name: id.Name})
		}
		if err := r.engine.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range [][2]string{{"a", "v5"}, {"b", "v6"}} {
		run, value := of[0], of[1]
		declare(apply.ClientSide, value)
		if st := r.run(ns + "-" + run); st.Run.State != stages.Completed {
			t.Fatal(r.explain(ns + "-" + run))
		}
		r.isStrict(c, value)
		told := r.altered(ns + "-" + run)
		for _, want := range []string{
			"PodTemplate.v1 " + ns + "/web: .template.bogus", `.env[name="JAVA_OPTS"] and 1 more`,
			"Database.v1." + ns + ".example.com " + ns + "/d", ".spec.notInSchema",
		} {
			if !strings.Contains(told, want) {
				t.Errorf("the run tells of %q, want %q in it", told, want)
			}
		}
		for d, err := range r.engine.Placement(ns).Drift(t.Context(), fleet.DriftOptions{}) {
			if err != nil || len(d.Objects) > 0 || len(d.Problems) > 0 {
				t.Errorf("drift after run %s: %+v, %v", run, d, err)
			}
		}
	}

	grace := []string{"template", "spec", "terminationGracePeriodSeconds"}
	// The engine reverts a change of another field.
	live, err := c.Get(t.Context(), snapshot.ID{Version: "v1", Kind: "PodTemplate", Namespace: ns, Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(live.Object, int64(1), grace...); err != nil {
		t.Fatal(err)
	}
	live.SetManagedFields(nil)
	if _, err := c.Apply(t.Context(), live, backend.ApplyOptions{Manager: "kubectl"}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		live, err := c.Get(t.Context(), snapshot.IDOf(live))
		if n, _, _ := unstructured.NestedInt64(live.Object, grace...); err == nil && n == 10 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the edit was not put back")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// isStrict fails unless the member has the objects of strict without the refused parts.
func (r *rollout) isStrict(c backend.Conn, value string) {
	r.t.Helper()
	get := func(group, kind, name, field string) map[string]any {
		r.t.Helper()
		obj, err := c.Get(r.t.Context(), snapshot.ID{Group: group, Version: "v1", Kind: kind, Namespace: r.name, Name: name})
		if err != nil {
			r.t.Fatal(err)
		}
		return obj.Object[field].(map[string]any)
	}
	want := map[string]any{"size": value, "roles": []any{map[string]any{"name": "app"}, map[string]any{"name": "ro"}}}
	if d := cmp.Diff(want, get(r.name+".example.com", "Database", "d", "spec")); d != "" {
		r.t.Errorf("the Database (-want +got):\n%s", d)
	}
	containers, _, _ := unstructured.NestedSlice(get("", "PodTemplate", "web", "template"), "spec", "containers")
	web := containers[0].(map[string]any)
	env := []any{map[string]any{"name": "OTHER", "value": "1"}, map[string]any{"name": "JAVA_OPTS", "value": value}}
	if d := cmp.Diff(env, web["env"]); d != "" {
		r.t.Errorf("the environment (-want +got):\n%s", d)
	}
	if ports := web["ports"].([]any); len(ports) != 1 || ports[0].(map[string]any)["name"] != "b" {
		r.t.Errorf("the ports are %v", ports)
	}
}

// altered returns the messages of the events ObjectsAltered of a run.
func (r *rollout) altered(run string) string {
	r.t.Helper()
	f, err := r.engine.Run(run).Follow("")
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for ev, err := range f.Events(r.t.Context()) {
		if err != nil {
			r.t.Fatal(err)
		}
		if ev.Type == stages.ObjectsAltered {
			all = append(all, ev.Message)
		}
	}
	return strings.Join(all, "; ")
}

// TestServerSideApplyNamesTheRefusedFields: the error has the fields and the keys, and no values.
func TestServerSideApplyNamesTheRefusedFields(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	c := connTo(t, s)
	all := strictIn(t, ns, "v5")
	_, err := c.Apply(t.Context(), all[2], backend.ApplyOptions{Manager: manager})
	refused := (*backend.SchemaError)(nil)
	if !errors.As(err, &refused) || !errors.Is(err, backend.ErrPermanent) {
		t.Fatalf("got %v", err)
	}
	const container = `.template.spec.containers[name="web"]`
	want := &backend.SchemaError{Repeated: []string{container + `.env[name="JAVA_OPTS"]`, container + `.ports[containerPort=80,protocol="TCP"]`}}
	if len(refused.Repeated) == 0 { // the server names the unknown field alone, or all
		want = &backend.SchemaError{}
	}
	want.Unknown = []string{".template.bogus"}
	slices.Sort(refused.Repeated)
	if d := cmp.Diff(want, refused); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	obj := all[2].DeepCopy()
	unstructured.RemoveNestedField(obj.Object, "template", "bogus")
	containers, _, _ := unstructured.NestedSlice(obj.Object, "template", "spec", "containers")
	containers[0].(map[string]any)["env"] = []any{map[string]any{"name": "A", "value": []any{"hidden"}}}
	if err := unstructured.SetNestedSlice(obj.Object, containers, "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: manager}); err == nil || errors.As(err, &refused) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("with a list as a text, got %v", err)
	}
}
