package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// heapPeak samples the heap and returns its largest size on request.
func heapPeak() (stop func() (mib float64)) {
	runtime.GC()
	var peak atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				metrics.Read(sample)
				peak.Store(max(peak.Load(), sample[0].Value.Uint64()))
			case <-done:
				tick.Stop()
				return
			}
		}
	}()
	return func() float64 {
		close(done)
		<-ended
		return float64(peak.Load()) / (1 << 20)
	}
}

// BenchmarkRun times a whole run, from its creation to its end: 10 objects on
// each cluster, a tenth of the clusters in flight, members that take 1 to 20 ms
// to answer each call.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{100, 10000, 100000} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) { benchmarkRun(b, n) })
	}
}

func benchmarkRun(b *testing.B, clusters int) {
	var written, peak float64
	for b.Loop() {
		b.StopTimer()
		w := newBenchEnv(b, clusters)
		stop := heapPeak()
		_, before := w.store.Stats()
		b.StartTimer()
		w.run(b, "run")
		b.StopTimer()
		_, after := w.store.Stats()
		written += float64(after-before) / float64(clusters)
		peak = max(peak, stop())
		w.close()
		b.StartTimer()
	}
	b.ReportMetric(written/float64(b.N), "written-bytes/cluster")
	b.ReportMetric(peak, "peak-MiB")
}

type bench struct {
	store  *memory.Store
	engine *fleet.Engine
	close  func()
}

func newBenchEnv(b *testing.B, clusters int) *bench {
	b.Helper()
	fl := memory.NewFleet()
	for i := range clusters {
		name := fmt.Sprintf("cluster-%05d", i)
		fl.Add(placement.Cluster{Name: name, Labels: map[string]string{"fleet": "all"}})
		fl.SetDelay(name, func() time.Duration { return time.Millisecond + rand.N(19*time.Millisecond) })
	}
	objs := []*unstructured.Unstructured{namespace("test-namespace")}
	for i := range 9 {
		objs = append(objs, configMap(fmt.Sprintf("cm-%d", i), strings.Repeat("x", 200)))
	}
	w := &bench{store: memory.NewStore()}
	var err error
	w.engine, err = fleet.New(fleet.Config{
		Store: w.store, Inventory: fl, Dialer: fl, Source: memory.NewSource(objs...), Name: "bench", MaxUpdates: 1024,
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.engine.PutPlacement(b.Context(), tutorialPlacement()); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		_ = w.engine.Start(ctx)
		close(done)
	}()
	w.close = func() {
		cancel()
		<-done
	}
	return w
}

func (w *bench) run(b *testing.B, name string) {
	b.Helper()
	tenth := intstr.FromString("10%")
	spec := fleet.RunSpec{Name: name, Placement: "example-placement", Strategy: stages.Strategy{
		Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &tenth}},
	}}
	if _, err := w.engine.CreateRun(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
	s, err := w.engine.Run(name).Wait(b.Context())
	if err != nil || s.Run.State != stages.Completed {
		b.Fatalf("run %s is %s (%s): %v", name, s.Run.State, s.Run.Reason, err)
	}
}

// BenchmarkLatency drives 100 runs over 100 clusters each at the same time, one cluster after the
// other. It measures the time from the moment when a member becomes ready until the first apply of
// an object on the next member. Members become ready 50 to 150 ms after their Deployment was
// applied.
func BenchmarkLatency(b *testing.B) {
	var all []time.Duration
	for b.Loop() {
		l := &latency{fleet: memory.NewFleet(), ready: map[string]time.Time{}}
		for i := range 100 {
			l.fleet.Add(placement.Cluster{Name: fmt.Sprintf("cluster-%03d", i)})
		}
		l.drive(b, 100)
		all = append(all, l.took...)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "ready-to-next-apply-p99-ms")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ready-to-next-apply-p50-ms")
}

// latency is a dialer that makes Deployments available some time after they were applied, and
// measures the times.
type latency struct {
	fleet *memory.Fleet
	mu    sync.Mutex
	ready map[string]time.Time
	took  []time.Duration
}

func (l *latency) Dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	conn, err := l.fleet.Dial(ctx, c)
	if err != nil {
		return nil, err
	}
	return &timedConn{ConnWatcher: conn.(backend.ConnWatcher), l: l, cluster: l.fleet.Cluster(c.Name)}, nil
}

type timedConn struct {
	backend.ConnWatcher
	l       *latency
	cluster *memory.Cluster
}

func (c *timedConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if obj.GetKind() != "Deployment" {
		return c.ConnWatcher.Apply(ctx, obj, o)
	}
	c.l.applied(obj.GetName())
	out, err := c.ConnWatcher.Apply(ctx, obj, o)
	id := snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: obj.GetNamespace(), Name: obj.GetName()}
	time.AfterFunc(50*time.Millisecond+rand.N(100*time.Millisecond), func() {
		c.l.becomesReady(id.Name)
		_ = c.cluster.SetStatus(id, availableStatus())
	})
	return out, err
}

func availableStatus() map[string]any {
	return map[string]any{
		"observedGeneration": int64(1), "replicas": int64(1), "readyReplicas": int64(1),
		"updatedReplicas": int64(1), "availableReplicas": int64(1),
		"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
	}
}

func (l *latency) applied(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.ready[name]; ok {
		l.took = append(l.took, time.Since(at))
		delete(l.ready, name)
	}
}

func (l *latency) becomesReady(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready[name] = time.Now()
}

func (l *latency) drive(b *testing.B, runs int) {
	b.Helper()
	src := memory.NewSource()
	for i := range runs {
		ns := fmt.Sprintf("ns-%03d", i)
		d := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "app-" + ns, "namespace": ns},
			"spec":     map[string]any{"replicas": int64(1)},
		}}
		for _, o := range []*unstructured.Unstructured{namespace(ns), d} {
			if err := src.Put(o); err != nil {
				b.Fatal(err)
			}
		}
	}
	e, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: l.fleet, Dialer: l, Source: src, Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		_ = e.Start(ctx)
		close(done)
	}()
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() { driveOne(ctx, b, e, fmt.Sprintf("ns-%03d", i)) })
	}
	wg.Wait()
	cancel()
	<-done
}

func driveOne(ctx context.Context, b *testing.B, e *fleet.Engine, ns string) {
	p := fleet.Placement{Name: ns, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: ns}}}
	if err := e.PutPlacement(ctx, p); err != nil {
		b.Error(err)
		return
	}
	spec := fleet.RunSpec{Name: ns, Placement: ns, Strategy: stages.Strategy{
		Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}},
	}}
	if _, err := e.CreateRun(ctx, spec); err != nil {
		b.Error(err)
		return
	}
	if s, err := e.Run(ns).Wait(ctx); err != nil || s.Run.State != stages.Completed {
		b.Errorf("run %s is %s: %v", ns, s.Run.State, err)
	}
}
