package step

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// BenchmarkStep measures a step in which one cluster completes and the next starts, and the size of
// the saved run.
func BenchmarkStep(b *testing.B) {
	for _, clusters := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) { benchStep(b, clusters, 100) })
	}
	for _, flying := range []int{1, 1000} {
		b.Run(fmt.Sprintf("in-flight=%d", flying), func(b *testing.B) { benchStep(b, 10000, flying) })
	}
}

func benchStep(b *testing.B, clusters, flying int) {
	p := benchPlan(b, clusters, flying)
	begin := Step(p, NewRun(p, "run", "uid", approval.Identity{Name: "ann"}, false, scriptEpoch), stages.Input{Now: scriptEpoch})
	if len(begin.Actions) != flying {
		b.Fatalf("%d are in flight", len(begin.Actions))
	}
	ready, now := begin, scriptEpoch
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if ready.Run.form.Stages[0].Groups[0].Completed >= clusters-flying {
			ready = begin
		}
		a := &ready.Actions[i%len(ready.Actions)]
		now = now.Add(time.Millisecond)
		in := stages.Input{Now: now, Observations: []stages.Observation{{
			Cluster: a.Cluster, Attempt: a.Attempt, Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: true,
		}}}
		ready = Step(p, ready.Run, in)
	}
	b.StopTimer()
	if len(ready.Actions) != flying {
		b.Fatalf("%d are in flight", len(ready.Actions))
	}
	b.ReportMetric(float64(recordSize(b, ready.Run)), "record-bytes")
}

// recordSize returns the stored size of a run, including the clusters in flight.
func recordSize(tb testing.TB, r Run) int {
	run, err := json.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	return len(run)
}

func benchPlan(tb testing.TB, clusters, flying int) *stages.Plan {
	limit := intstr.FromInt32(int32(flying))
	s := stages.Strategy{Name: "wide", Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &limit}}}
	fleet := make([]placement.Cluster, clusters)
	for i := range fleet {
		fleet[i] = placement.Cluster{Name: fmt.Sprintf("cluster-%06d", i), UID: fmt.Sprintf("8f14e45f-ceea-467f-9d3b-%012d", i)}
	}
	p, err := planner.Plan(s, stages.Target{Placement: "web", Index: 1, Snapshot: "s1", Selection: "d1", Default: "r1"}, fleet)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// The record of a run does not grow with the fleet. With 100 of 10,000 clusters in flight it stays
// under 16 KiB, and under a tenth of the size of a run that records every cluster.
func TestRecordDoesNotGrowWithTheFleet(t *testing.T) {
	size := func(clusters int) int {
		p := benchPlan(t, clusters, 100)
		r := NewRun(p, "run", "uid", approval.Identity{Name: "ann"}, false, scriptEpoch)
		ready := Step(p, r, stages.Input{Now: scriptEpoch})
		for range clusters - 100 {
			a := &ready.Actions[0]
			ready = Step(p, ready.Run, stages.Input{Now: scriptEpoch, Observations: []stages.Observation{{
				Cluster: a.Cluster, Attempt: 1, Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: true,
			}}})
		}
		return recordSize(t, ready.Run)
	}
	small, large := size(1000), size(10000)
	if large > 16<<10 {
		t.Errorf("the record has %d bytes", large)
	}
	if large > small+small/10 {
		t.Errorf("the record has %d bytes for 1,000 clusters and %d for 10,000", small, large)
	}
}
