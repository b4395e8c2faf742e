package fleet_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/internal/storebench"
)

// BenchmarkTransitions drives 64 runs over 50 clusters each at the same time, one cluster after the
// other. The store and the updater take no time, so it measures the engine's own cost for each
// committed save of a run.
func BenchmarkTransitions(b *testing.B) {
	var all storebench.Measured
	var cpu float64
	for b.Loop() {
		b.StopTimer()
		store := storebench.Count(memory.NewStore())
		runs := storebench.NewRuns(b, store, 64, 50)
		before, used := store.Measured().Saves, cpuSeconds()
		b.StartTimer()
		runs.Finish(b)
		b.StopTimer()
		cpu += cpuSeconds() - used
		all.Saves += store.Measured().Saves - before
		b.StartTimer()
	}
	b.ReportMetric(float64(all.Saves)/b.Elapsed().Seconds(), "transitions/s")
	b.ReportMetric(cpu*1e6/float64(all.Saves), "CPU-us/transition")
}

// cpuSeconds returns the CPU time of the process. It collects garbage first, because that updates
// the time.
func cpuSeconds() float64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64() - sample[1].Value.Float64()
}
