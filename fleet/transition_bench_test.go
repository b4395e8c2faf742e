package fleet_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// instant is an updater that is done at once, without a cluster.
type instant struct{}

func (instant) Update(_ context.Context, a fleet.Assignment) (fleet.Proof, error) {
	return fleet.Proof{Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: true}, nil
}

func (u instant) Observe(ctx context.Context, a fleet.Assignment) (fleet.Proof, error) {
	return u.Update(ctx, a)
}

// saves is a store that counts the saves of runs.
type saves struct {
	*memory.Store
	n atomic.Int64
}

func (s *saves) note(key string) {
	if strings.HasPrefix(key, "run/") {
		s.n.Add(1)
	}
}

func (s *saves) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.note(key)
	return s.Store.Put(ctx, key, value, prev)
}

func (s *saves) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	for _, w := range writes {
		s.note(w.Key)
	}
	return s.Store.WriteAll(ctx, writes)
}

// BenchmarkTransitions drives 64 runs over 50 clusters each at the same time, one
// cluster after the other, with a store and an updater that take no time: what is
// left is what the engine itself costs for each committed save of a run.
func BenchmarkTransitions(b *testing.B) {
	var transitions int64
	var cpu float64
	for b.Loop() {
		b.StopTimer()
		store := &saves{Store: memory.NewStore()}
		e := manyRuns(b, store, 64, 50)
		before, used := store.n.Load(), cpuSeconds()
		b.StartTimer()
		endOfAll(b, e, 64)
		b.StopTimer()
		cpu += cpuSeconds() - used
		transitions += store.n.Load() - before
		b.StartTimer()
	}
	b.ReportMetric(float64(transitions)/b.Elapsed().Seconds(), "transitions/s")
	b.ReportMetric(cpu*1e6/float64(transitions), "CPU-us/transition")
}

// cpuSeconds is the time that the process has used. It is counted when garbage
// is collected.
func cpuSeconds() float64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64() - sample[1].Value.Float64()
}

// manyRuns returns an engine with so many runs that no engine drives yet, each of a placement of its own.
func manyRuns(b *testing.B, store backend.Store, runs, clusters int) *fleet.Engine {
	b.Helper()
	fl := memory.NewFleet()
	for i := range clusters {
		fl.Add(placement.Cluster{Name: fmt.Sprintf("cluster-%03d", i)})
	}
	src := memory.NewSource()
	e, err := fleet.New(fleet.Config{Store: store, Inventory: fl, Updater: instant{}, Source: src, Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	for i := range runs {
		name := fmt.Sprintf("run-%03d", i)
		if err := src.Put(namespace(name)); err != nil {
			b.Fatal(err)
		}
		p := fleet.Placement{Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: name}}}
		if err := e.PutPlacement(b.Context(), p); err != nil {
			b.Fatal(err)
		}
		if _, err := e.CreateRun(b.Context(), fleet.RunSpec{Name: name, Placement: name, Strategy: oneStage()}); err != nil {
			b.Fatal(err)
		}
	}
	return e
}

// endOfAll drives the runs of manyRuns to their end.
func endOfAll(b *testing.B, e *fleet.Engine, runs int) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		_ = e.Run(ctx)
		close(done)
	}()
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			if s, err := e.Wait(ctx, fmt.Sprintf("run-%03d", i)); err != nil || s.Run.State != stages.Completed {
				b.Errorf("run %d is %s (%s): %v", i, s.Run.State, s.Run.Reason, err)
			}
		})
	}
	all.Wait()
	cancel()
	<-done
}
