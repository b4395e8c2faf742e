package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// What BenchmarkEngines rolls out: so many clusters, over so many placements, whose calls take so long.
const (
	benchClusters   = 10_000
	benchPlacements = 40
	benchDelay      = 20 * time.Millisecond
	benchUpdates    = 32
)

// benchFleet has the clusters of the benchmark, which each engine process has for itself: no run moves while it lasts.
func benchFleet() *memory.Fleet {
	f := memory.NewFleet()
	for i := range benchClusters {
		name := fmt.Sprintf("c%05d", i)
		f.Add(placement.Cluster{Name: name, Labels: map[string]string{"part": strconv.Itoa(i % benchPlacements)}})
		f.SetDelay(name, func() time.Duration { return benchDelay })
	}
	return f
}

// BenchmarkEngines has engines in processes of their own on one store bring a ConfigMap to 10,000 clusters whose calls take 20 ms.
// updates/s is what they do together, db-cores and engine-cores what the server and they take of the processors.
func BenchmarkEngines(b *testing.B) {
	for _, engines := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint("engines=", engines), func(b *testing.B) {
			var took time.Duration
			var db, own float64
			for range b.N {
				c := newCrew(b, 0)
				c.members = "bench"
				for i := range engines {
					c.start(fmt.Sprint("engine-", i))
				}
				clusters := benchFleet()
				host, err := fleet.New(fleet.Config{Store: c.store, Inventory: clusters, Dialer: clusters, Source: c.source, Name: "host", Lease: enginesLease, Skew: enginesSkew})
				if err != nil {
					b.Fatal(err)
				}
				c.host = host
				time.Sleep(2 * time.Second)
				for i := range benchPlacements {
					c.place(i)
				}
				began, dbBefore := time.Now(), c.serverCPU()
				for i := range benchPlacements {
					spec := fleet.RunSpec{Name: fmt.Sprint("b", i), Placement: fmt.Sprint("b", i), Strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: allOfThem()}}}}
					if _, err := host.CreateRun(b.Context(), spec); err != nil {
						b.Fatal(err)
					}
				}
				for i := range benchPlacements {
					if s, err := host.Wait(b.Context(), fmt.Sprint("b", i)); err != nil || s.Run.State != stages.Completed {
						b.Fatalf("%s, %v", s.Run.State, err)
					}
				}
				took += time.Since(began)
				db += c.serverCPU() - dbBefore
				for _, name := range c.names() {
					own += c.killed(name)
				}
			}
			b.ReportMetric(float64(b.N*benchClusters)/took.Seconds(), "updates/s")
			b.ReportMetric(db/took.Seconds(), "db-cores")
			b.ReportMetric(own/took.Seconds(), "engine-cores")
		})
	}
}

// place declares a placement of the benchmark.
func (c *crew) place(i int) {
	name := fmt.Sprint("b", i)
	for _, obj := range []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}},
		{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": name}, "data": map[string]any{"key": name}}},
	} {
		if err := c.source.Put(obj); err != nil {
			c.t.Fatal(err)
		}
	}
	part := metav1.LabelSelector{MatchLabels: map[string]string{"part": strconv.Itoa(i)}}
	err := c.host.PutPlacement(c.t.Context(), fleet.Placement{
		Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: name}},
		Policy: placement.Policy{Required: []placement.Term{{LabelSelector: part}}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// killed kills an engine and returns how much of the processors it took, in seconds.
func (c *crew) killed(name string) float64 {
	c.mu.Lock()
	cmd := c.engines[name]
	c.mu.Unlock()
	c.kill(name)
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// serverCPU is how much of the processors the server's processes have taken that are there now and those that ended, in seconds.
func (c *crew) serverCPU() (seconds float64) {
	const ticks = 100 // a second
	for _, pid := range shared.Processes() {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, i := range []int{11, 12} { // utime, stime
			n, _ := strconv.Atoi(fields[i])
			seconds += float64(n) / ticks
		}
	}
	return seconds
}

// BenchmarkTakeover kills one of two engines and measures how long it takes until the other one has all of its runs.
// beyond-lease is how much longer than a lease that is.
func BenchmarkTakeover(b *testing.B) {
	var took time.Duration
	for range b.N {
		c := newCrew(b, 2)
		c.declare(100, 12*time.Hour)
		c.start("one")
		c.start("two")
		eventually(b, "two engines with half of it each", func() bool {
			had := c.holders()
			return len(had["one"]) == 50 && len(had["two"]) == 50
		})
		c.signal("two", syscall.SIGKILL)
		began := time.Now()
		eventually(b, "the first one with everything", func() bool { return len(c.holders()["one"]) == 100 })
		took += time.Since(began)
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "s/takeover")
	b.ReportMetric((took/time.Duration(b.N) - enginesLease).Seconds(), "s-beyond-lease")
}

// benchEngine completes the configuration of an engine of the benchmark.
func benchEngine(cfg *fleet.Config) {
	clusters := benchFleet()
	cfg.Inventory, cfg.Dialer, cfg.MaxUpdates = clusters, clusters, benchUpdates
}

// allOfThem is a limit of all clusters.
func allOfThem() *intstr.IntOrString {
	all := intstr.FromString("100%")
	return &all
}
