package drift_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/drift"
)

// decode reads JSON as clients of servers do: whole numbers are int64.
func decode(t testing.TB, b []byte) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(b); err != nil {
		t.Fatal(err)
	}
	return o
}

func benchFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "bench", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// deployment returns a Deployment with all defaults, and the object of a member with
// managedFields and status.
func deployment(t testing.TB) (hub, member *unstructured.Unstructured) {
	t.Helper()
	return decode(t, benchFile(t, "deployment-hub.json")), decode(t, benchFile(t, "deployment-member.json"))
}

// unpacked returns an object of testdata/bench that is stored compressed: a
// ConfigMap of 20 values of 10 KB, a CustomResourceDefinition with a schema of
// 500 KB as generators write it.
func unpacked(t testing.TB, name string) map[string]any {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(benchFile(t, name+".json.gz")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, b).Object
}

// pair returns two copies that share nothing.
func pair(t testing.TB, o map[string]any) (hub, member *unstructured.Unstructured) {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, b), decode(t, b)
}

func compiled(t testing.TB, hub *unstructured.Unstructured, c drift.Comparison) *drift.Manifest {
	t.Helper()
	m, err := drift.Compile(hub, drift.Options{Comparison: c, Manager: "slipway/shop"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func set(t testing.TB, o *unstructured.Unstructured, v any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, v, path...); err != nil {
		t.Fatal(err)
	}
}

// walk is the least that can be done: it visits everything in both trees.
func walk(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		m, _ := b.(map[string]any)
		return walkMaps(a, m)
	case []any:
		l, _ := b.([]any)
		same := len(a) == len(l)
		for i := range min(len(a), len(l)) {
			same = walk(a[i], l[i]) && same
		}
		return same
	}
	return a == b
}

func walkMaps(a, b map[string]any) bool {
	same, common := true, 0
	for k, v := range a {
		e, ok := b[k]
		if ok {
			common++
		}
		same = walk(v, e) && same
	}
	if common == len(b) {
		return same
	}
	for k, v := range b {
		if _, ok := a[k]; !ok {
			walk(v, nil)
		}
	}
	return false
}

func BenchmarkCompare(b *testing.B) {
	hub, member := deployment(b)
	b.Run("floor-walk", func(b *testing.B) {
		for b.Loop() {
			walk(hub.Object, member.Object)
		}
	})
	for _, c := range []drift.Comparison{drift.Partial, drift.Full} {
		name := map[drift.Comparison]string{drift.Partial: "", drift.Full: "-full"}[c]
		compareBenchmark(b, "deployment-equal"+name, hub, member, c, 0)
		changed := member.DeepCopy()
		set(b, changed, int64(7), "spec", "replicas")
		compareBenchmark(b, "deployment-one-change"+name, hub, changed, c, 1)
		a, z := pair(b, unpacked(b, "configmap"))
		compareBenchmark(b, "configmap-200k"+name, a, z, c, 0)
		a, z = pair(b, unpacked(b, "crd"))
		compareBenchmark(b, "crd-500k"+name, a, z, c, 0)
	}
}

func compareBenchmark(b *testing.B, name string, hub, member *unstructured.Unstructured, c drift.Comparison, want int) {
	b.Run(name, func(b *testing.B) {
		m := compiled(b, hub, c)
		b.ReportAllocs()
		for b.Loop() {
			r, err := m.Compare(member, nil)
			if err != nil || r.Total != want {
				b.Fatalf("%v, %d differences, want %d: %+v", err, r.Total, want, r.Differences)
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	hub, _ := deployment(b)
	crd, _ := pair(b, unpacked(b, "crd"))
	for name, o := range map[string]*unstructured.Unstructured{"deployment": hub, "crd-500k": crd} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compiled(b, o, drift.Partial)
			}
		})
	}
}

// minimal returns a Deployment of about 750 bytes of JSON.
func minimal(i int) map[string]any {
	name := fmt.Sprintf("service-%04d", i)
	labels := map[string]any{"app.kubernetes.io/name": name, "team": "payments"}
	container := map[string]any{
		"name": "app", "image": "registry.example.com/shop/" + name + ":1.42.0",
		"ports":     []any{map[string]any{"name": "http", "containerPort": int64(8080), "protocol": "TCP"}},
		"env":       []any{map[string]any{"name": "LOG_LEVEL", "value": "info"}, map[string]any{"name": "REGION", "value": "eu-west-1"}},
		"resources": map[string]any{"limits": map[string]any{"cpu": "1", "memory": "512Mi"}},
	}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": name, "namespace": "shop", "labels": labels, "resourceVersion": "1", "generation": int64(1),
			"uid": fmt.Sprintf("6b9d0d2c-0a53-4f2e-8f1b-%012d", i),
		},
		"spec": map[string]any{
			"replicas": int64(3), "selector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{container}},
			},
		},
	}
}

// minimalFleet returns n manifests and the JSON of their objects on a member, of which every
// step-th has another image; 0 means none.
func minimalFleet(t testing.TB, n, step int) (manifests []*drift.Manifest, members [][]byte) {
	t.Helper()
	for i := range n {
		hub, member := pair(t, minimal(i))
		manifests = append(manifests, compiled(t, hub, drift.Partial))
		if step > 0 && i%step == 0 {
			spec := member.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			spec["containers"].([]any)[0].(map[string]any)["image"] = "registry.example.com/other:1"
		}
		b, err := json.Marshal(member.Object)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, b)
	}
	return manifests, members
}

func BenchmarkReport(b *testing.B) {
	for name, step := range map[string]int{"clean": 0, "drifted=5%": 20} {
		b.Run("objects=1000/"+name, func(b *testing.B) {
			manifests, members := minimalFleet(b, 1000, step)
			b.SetBytes(int64(len(members[0])))
			b.ReportAllocs()
			for b.Loop() {
				for i, m := range manifests {
					report(b, m, members[i])
				}
			}
			b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "objects/s")
		})
	}
}

// report reads an object of a member, compares it, and writes the report.
func report(b *testing.B, m *drift.Manifest, text []byte) {
	o := unstructured.Unstructured{}
	if err := utiljson.Unmarshal(text, &o.Object); err != nil {
		b.Fatal(err)
	}
	r, err := m.Compare(&o, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := json.Marshal(&r); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAtomicList compares a NetworkPolicy whose atomic list of rules has a new first rule
// and another changed rule.
func BenchmarkAtomicList(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			rule := func(port int) any {
				return map[string]any{"from": []any{source("v", 2)}, "ports": []any{map[string]any{"port": int64(port), "protocol": "TCP", "endPort": int64(port + 1)}}}
			}
			live := items(n, rule)
			live[n/2] = rule(60_000)
			m := compiled(b, policy(items(n, rule)), drift.Partial)
			member := policy(append([]any{rule(70_000)}, live...))
			b.ReportAllocs()
			for b.Loop() {
				if r, err := m.Compare(member, nil); err != nil || r.Total == 0 {
					b.Fatal(err, r.Total)
				}
			}
		})
	}
}
