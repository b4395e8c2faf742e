package fleet_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/storebench"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// BenchmarkFileSize rolls out a thousand snapshots to 100 clusters, one after the other, with the
// default history limits of placements: 10 snapshots and 50 runs. It reports the size of the file
// after 100 runs, after all of them, and compacted.
func BenchmarkFileSize(b *testing.B) {
	const runs, clusters = 1000, 100
	fl := memory.NewFleet()
	for i := range clusters {
		fl.Add(placement.Cluster{Name: fmt.Sprintf("cluster-%03d", i), Labels: map[string]string{"fleet": "all"}})
	}
	for b.Loop() {
		disk, err := bolt.Open(filepath.Join(b.TempDir(), "state.db"), bolt.Options{})
		if err != nil {
			b.Fatal(err)
		}
		src := memory.NewSource(namespace("test-namespace"))
		e, err := fleet.New(fleet.Config{Store: disk, Inventory: fl, Updater: storebench.Instant{}, Source: src, Name: "bench"})
		if err == nil {
			err = e.PutPlacement(b.Context(), tutorialPlacement())
		}
		if err != nil {
			b.Fatal(err)
		}
		stop := running(b, e)
		for i := range runs {
			if i == runs/10 {
				b.ReportMetric(float64(disk.Stats().FileBytes)/(1<<20), "MiB-after-100")
			}
			changedAndRolledOut(b, e, src, i)
		}
		stop()
		b.ReportMetric(float64(disk.Stats().FileBytes)/(1<<20), "MiB-after-1000")
		if err := disk.Compact(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(disk.Stats().FileBytes)/(1<<20), "MiB-compacted")
		b.ReportMetric(float64(disk.Stats().Records), "records")
		if err := disk.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// changedAndRolledOut changes the source and drives the nth run to its end.
func changedAndRolledOut(b *testing.B, e *fleet.Engine, src *memory.Source, n int) {
	b.Helper()
	name := fmt.Sprintf("run-%04d", n)
	if err := src.Put(configMap("test-cm", name)); err != nil {
		b.Fatal(err)
	}
	if _, err := e.CreateRun(b.Context(), fleet.RunSpec{Name: name, Placement: tutorialPlacement().Name, Strategy: allAtOnce(100)}); err != nil {
		b.Fatal(err)
	}
	if s, err := e.Run(name).Wait(b.Context()); err != nil || s.Run.State != stages.Completed {
		b.Fatalf("%s is %s: %v", name, s.Run.State, err)
	}
}
