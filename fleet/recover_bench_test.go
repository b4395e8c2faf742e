package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/storebench"
	"github.com/slipway-dev/slipway/placement"
)

// BenchmarkRecover opens a bolt store with a half-done run over many clusters, and drives the run
// until its next step is committed. It reads and verifies the file, takes the lease, reads and
// verifies the plan, and saves the result of a cluster.
func BenchmarkRecover(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) { benchmarkRecover(b, n) })
	}
}

func benchmarkRecover(b *testing.B, clusters int) {
	fl, src := memory.NewFleet(), memory.NewSource(namespace("test-namespace"))
	for i := range clusters {
		fl.Add(placement.Cluster{Name: fmt.Sprintf("cluster-%06d", i), Labels: map[string]string{"fleet": "all"}})
	}
	image := halfDone(b, fl, src)
	var size int64
	for b.Loop() {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "state.db")
		writeSynced(b, path, image)
		b.StartTimer()
		disk, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			b.Fatal(err)
		}
		stop := driveUntil(b, &stepped{Store: storebench.Count(disk), after: 2, done: make(chan struct{})}, fl, src, storebench.Instant{})
		b.StopTimer()
		stop()
		size = disk.Stats().FileBytes
		if err := disk.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(size)/(1<<20), "file-MiB")
}

// halfDone returns the file of a store with a half-done run.
func halfDone(b *testing.B, fl *memory.Fleet, src *memory.Source) []byte {
	b.Helper()
	path := filepath.Join(b.TempDir(), "state.db")
	disk, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	setup, err := fleet.New(fleet.Config{Store: disk, Inventory: fl, Updater: storebench.Instant{}, Source: src, Name: "bench"})
	if err == nil {
		err = setup.PutPlacement(b.Context(), tutorialPlacement())
	}
	if err != nil {
		b.Fatal(err)
	}
	strategy, most := oneStage(), intstr.FromInt32(500)
	strategy.Stages[0].MaxConcurrency = &most
	if _, err := setup.CreateRun(b.Context(), fleet.RunSpec{Name: "run", Placement: tutorialPlacement().Name, Strategy: strategy}); err != nil {
		b.Fatal(err)
	}
	half := &countdown{done: make(chan struct{})}
	half.left.Store(int64(fl.Len() / 2))
	stop := driveUntil(b, half.store(disk), fl, src, half)
	stop()
	if err := disk.Close(); err != nil {
		b.Fatal(err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return image
}

// writeSynced writes a file and syncs it to disk, as a restarted process finds it.
func writeSynced(b *testing.B, path string, content []byte) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		b.Fatal(err)
	}
}

// waited is a store that signals when the benchmark must stop.
type waited interface {
	backend.Store
	over() <-chan struct{}
}

// driveUntil drives the runs in a store until the store signals the end.
func driveUntil(b *testing.B, s waited, fl *memory.Fleet, src *memory.Source, u backend.Updater) (stop func()) {
	b.Helper()
	e, err := fleet.New(fleet.Config{Store: s, Inventory: fl, Updater: u, Source: src, Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	select {
	case <-s.over():
	case err := <-done:
		b.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// countdown is an updater that completes a given number of clusters at once, and no more.
type countdown struct {
	storebench.Instant

	left atomic.Int64
	done chan struct{}
}

func (c *countdown) Update(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	switch left := c.left.Add(-1); {
	case left == 0:
		close(c.done)
	case left < 0:
		return backend.Proof{Sent: true}, nil
	}
	return c.Instant.Update(ctx, a)
}

func (c *countdown) Observe(context.Context, backend.Assignment) (backend.Proof, error) {
	return backend.Proof{Sent: true}, nil
}

func (c *countdown) store(s *bolt.Store) waited {
	return &stepped{Store: storebench.Count(s), done: c.done}
}

// stepped is a store that signals its end after a given number of saves of runs, or when another
// caller does.
type stepped struct {
	*storebench.Store

	after int64
	once  sync.Once
	done  chan struct{}
}

func (s *stepped) over() <-chan struct{} { return s.done }

func (s *stepped) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	made, err := s.Store.WriteAll(ctx, writes)
	if s.after > 0 && s.Measured().Saves >= s.after {
		s.once.Do(func() { close(s.done) })
	}
	return made, err
}
