package memory_test

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
)

// benchmarkObject is a small ConfigMap as the engine applies it.
func benchmarkObject(n int, value string) *unstructured.Unstructured {
	obj := config(fmt.Sprintf("config-%d", n), map[string]any{"level": value, "replicas": "3", "zone": "west"})
	obj.SetLabels(map[string]string{"app": "example"})
	obj.SetAnnotations(map[string]string{"slipway.dev/placement": "example", "slipway.dev/epoch": "1"})
	return obj
}

func BenchmarkApply(b *testing.B) {
	opts := backend.ApplyOptions{Manager: "slipway/example"}
	odd, even := benchmarkObject(0, "info"), benchmarkObject(0, "debug")
	b.Run("unchanged", func(b *testing.B) { benchmarkApply(b, opts, odd, odd) })
	b.Run("changed", func(b *testing.B) { benchmarkApply(b, opts, odd, even) })
}

func benchmarkApply(b *testing.B, opts backend.ApplyOptions, objs ...*unstructured.Unstructured) {
	conn := memory.NewCluster("one").Conn()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := conn.Apply(b.Context(), objs[i%len(objs)], opts); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApplyCreate(b *testing.B) {
	obj := benchmarkObject(0, "info")
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		conn := memory.NewCluster("one").Conn()
		b.StartTimer()
		if _, err := conn.Apply(b.Context(), obj, backend.ApplyOptions{Manager: "slipway/example"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFleet fills a fleet of 10,000 clusters with the same ten objects and reports its
// memory.
func BenchmarkFleet(b *testing.B) {
	objs := make([]*unstructured.Unstructured, 10)
	for i := range objs {
		objs[i] = benchmarkObject(i, "info")
	}
	for b.Loop() {
		before := heap()
		fleet := memory.NewFleet()
		for n := range 10000 {
			conn := fleet.Add(placement.Cluster{Name: fmt.Sprintf("cluster-%05d", n)}).Conn()
			for _, obj := range objs {
				if _, err := conn.Apply(b.Context(), obj, backend.ApplyOptions{Manager: "slipway/example"}); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		runtime.KeepAlive(fleet)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
