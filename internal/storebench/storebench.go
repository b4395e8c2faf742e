// Package storebench measures the throughput of a store: the rate of saves of runs by an engine
// on it, and in the same benchmark the rate of writes of the same size by bare clients.
//
//	counted := storebench.Count(store)
//	m := storebench.NewRuns(b, counted, 64, 50).Measure(b, counted)
//	m.Report(b, storebench.Bare(b, 64, m.SaveBytes(), write))
//
// It is for benchmarks of stores and of the engine.
package storebench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// bareTime is the duration of the writes by bare clients.
const bareTime = time.Second

// Instant is an updater that finishes immediately, without a cluster.
type Instant struct{}

// Update reports that the cluster has the revision and is healthy.
func (Instant) Update(_ context.Context, a backend.Assignment) (backend.Proof, error) {
	return backend.Proof{Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: true}, nil
}

// Observe returns the same as Update.
func (u Instant) Observe(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	return u.Update(ctx, a)
}

// Store counts the commits to a store. All methods may be called concurrently.
type Store struct {
	backend.Watcher
	batches               bool
	saves, commits, bytes atomic.Int64
}

// Count returns a counting store.
func Count(s backend.Watcher) *Store {
	_, batches := s.(backend.Batcher)
	return &Store{Watcher: s, batches: batches}
}

// Put writes a record, and counts it.
func (s *Store) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	rev, err := s.Watcher.Put(ctx, key, value, prev)
	if err == nil {
		s.note(1, backend.Write{Key: key, Value: value})
	}
	return rev, err
}

// Delete deletes a record, and counts it.
func (s *Store) Delete(ctx context.Context, key string, prev backend.Revision) error {
	err := s.Watcher.Delete(ctx, key, prev)
	if err == nil {
		s.note(1)
	}
	return err
}

// WriteAll makes the writes, in one commit if the store has batches, and counts them.
func (s *Store) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	made, err := backend.WriteAll(ctx, s.Watcher, writes)
	commits := len(made)
	if s.batches {
		commits = min(commits, 1)
	}
	s.note(commits, writes[:len(made)]...)
	return made, err
}

func (s *Store) note(commits int, writes ...backend.Write) {
	s.commits.Add(int64(commits))
	for _, w := range writes {
		if strings.HasPrefix(w.Key, "run/") && !w.Delete {
			s.saves.Add(1)
		}
		s.bytes.Add(int64(len(w.Value)))
	}
}

// Measured returns the counts since the creation of the store.
func (s *Store) Measured() Measured {
	return Measured{Saves: s.saves.Load(), Commits: s.commits.Load(), Bytes: s.bytes.Load()}
}

// Measured contains the commits of an engine: saves of runs, commits and bytes of all records,
// and the duration.
type Measured struct {
	Saves, Commits, Bytes int64
	Took                  time.Duration
}

// Add adds the counts of another round.
func (m *Measured) Add(other Measured) {
	m.Saves, m.Commits, m.Bytes, m.Took = m.Saves+other.Saves, m.Commits+other.Commits, m.Bytes+other.Bytes, m.Took+other.Took
}

// SaveBytes returns the number of bytes written for each save.
func (m Measured) SaveBytes() int { return int(m.Bytes / max(1, m.Saves)) }

// Report reports the rate of saves, the cost of each, and the ratio to the rate of bare writes of
// the same size.
func (m Measured) Report(b *testing.B, bare float64) {
	b.Helper()
	rate := float64(m.Saves) / m.Took.Seconds()
	b.ReportMetric(rate, "transitions/s")
	b.ReportMetric(float64(m.SaveBytes()), "bytes/transition")
	b.ReportMetric(float64(m.Commits)/float64(m.Saves), "commits/transition")
	b.ReportMetric(bare, "bare/s")
	b.ReportMetric(rate/bare, "of-bare")
}

// Runs are runs without a driving engine, each of its own placement, over the same clusters.
type Runs struct {
	*fleet.Engine

	names []string
}

// NewRuns declares runs on a store. Their clusters are updated one after the other without delay.
func NewRuns(b *testing.B, store backend.Store, runs, clusters int) *Runs {
	b.Helper()
	members, source := memory.NewFleet(), memory.NewSource()
	for i := range clusters {
		members.Add(placement.Cluster{Name: fmt.Sprintf("cluster-%03d", i)})
	}
	e, err := fleet.New(fleet.Config{Store: store, Inventory: members, Updater: Instant{}, Source: source, Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	all := &Runs{Engine: e}
	one := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	for i := range runs {
		name := fmt.Sprintf("run-%03d", i)
		all.names = append(all.names, name)
		err := source.Put(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}})
		if err == nil {
			err = e.PutPlacement(b.Context(), fleet.Placement{Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: name}}})
		}
		if err == nil {
			_, err = e.CreateRun(b.Context(), fleet.RunSpec{Name: name, Placement: name, Strategy: one})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return all
}

// Finish drives the runs to their end.
func (r *Runs) Finish(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		_ = r.Start(ctx)
		close(done)
	}()
	var all sync.WaitGroup
	for _, name := range r.names {
		all.Go(func() {
			if s, err := r.Run(name).Wait(ctx); err != nil || s.Run.State != stages.Completed {
				b.Errorf("%s is %s (%s): %v", name, s.Run.State, s.Run.Reason, err)
			}
		})
	}
	all.Wait()
	cancel()
	<-done
}

// Measure drives the runs to their end, and returns the commits during that time. The timer of
// the benchmark runs only for this part.
func (r *Runs) Measure(b *testing.B, s *Store) Measured {
	b.Helper()
	before, began := s.Measured(), time.Now()
	b.StartTimer()
	r.Finish(b)
	b.StopTimer()
	took := time.Since(began)
	m := s.Measured()
	return Measured{m.Saves - before.Saves, m.Commits - before.Commits, m.Bytes - before.Bytes, took}
}

// Bare returns the rate of writes of a size by clients. Each client writes its own record
// repeatedly.
func Bare(b *testing.B, clients, size int, write func(ctx context.Context, client int, value []byte) error) float64 {
	b.Helper()
	var n atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for client := range clients {
		all.Go(func() {
			for value := make([]byte, size); time.Since(began) < bareTime; n.Add(1) {
				if err := write(b.Context(), client, value); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}
