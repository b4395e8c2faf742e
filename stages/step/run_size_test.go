package step

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// maxRecord is the size that the package documentation promises for a run of 10,000 clusters.
const maxRecord = 256 << 10

// outage steps a run as far as it goes while the clusters at positions below unreachable cannot
// be reached. It returns the largest record.
func outage(tb testing.TB, p *stages.Plan, unreachable int) (ready Ready, largest int) {
	now := scriptEpoch
	ready = Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
	for i := 0; i < few(3000, 5) && ready.Run.State == stages.Running; i++ {
		now = now.Add(time.Second)
		in := stages.Input{Now: now}
		for _, a := range ready.Actions {
			o := (&scriptRun{plan: p, r: ready.Run}).observation(a.Cluster, "healthy")
			if a.Pos < unreachable {
				o = stages.Observation{Cluster: a.Cluster, Attempt: a.Attempt, Unreachable: true, Message: fmt.Sprintf("dial %s: %0200d", a.Cluster, 0)}
			}
			in.Observations = append(in.Observations, o)
		}
		ready = Step(p, ready.Run, in)
		if i%100 == 0 {
			largest = max(largest, recordSize(tb, ready.Run))
		}
	}
	return ready, max(largest, recordSize(tb, ready.Run))
}

// An outage does not put the fleet into the record: beyond 256 clusters, unreachable clusters keep
// their slots.
func TestOutageIsBounded(t *testing.T) {
	p := benchPlan(t, 10000, 100)
	ready, size := outage(t, p, 6000)
	if size > maxRecord {
		t.Errorf("the record has %d bytes", size)
	}
	r := &ready.Run
	if n := len(r.form.Waiting); n != maxUnreached {
		t.Errorf("%d clusters wait", n)
	}
	if n := r.form.Stages[0].Groups[0].Next; n != maxUnreached+100 {
		t.Errorf("the run has come to %d clusters", n)
	}
	for _, y := range r.form.Waiting {
		if len(y.Message) > 80 || !strings.HasPrefix(y.Message, "dial cluster-") {
			t.Fatalf("%q", y.Message)
		}
	}
	e, err := Explain(p, r, p.Clusters[r.form.InFlight[0].Pos].Name)
	if err != nil || !strings.HasPrefix(e.Waiting[0].Message, "dial cluster-") {
		t.Errorf("%v, %v", e, err)
	}
}

// Waiting clusters take turns with the clusters that hold the slots. So the run continues as soon
// as any of them can be reached again.
func TestRunContinuesAfterAnOutage(t *testing.T) {
	p := benchPlan(t, 1000, 10)
	ready, _ := outage(t, p, 600)
	held := map[int]bool{}
	for i := range ready.Run.form.InFlight {
		held[ready.Run.form.InFlight[i].Pos] = true
	}
	now := ready.Run.Now.Time()
	for range 2000 {
		now = now.Add(time.Second)
		in := stages.Input{Now: now}
		for _, a := range ready.Actions {
			word := "healthy"
			if held[a.Pos] {
				word = "unreachable"
			}
			in.Observations = append(in.Observations, (&scriptRun{plan: p, r: ready.Run}).observation(a.Cluster, word))
		}
		ready = Step(p, ready.Run, in)
	}
	if n := ready.Run.form.Stages[0].Groups[0].Completed; n != 990 {
		t.Errorf("%d of 990 clusters that can be reached have completed", n)
	}
}

// manyFail steps a run. Every step-th cluster fails for its own reason, and the budget is never
// used up.
func manyFail(tb testing.TB, p *stages.Plan, step int) Ready {
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, scriptEpoch), stages.Input{Now: scriptEpoch})
	for ready.Run.State == stages.Running {
		in := stages.Input{Now: scriptEpoch}
		for _, a := range ready.Actions {
			o := (&scriptRun{plan: p, r: ready.Run}).observation(a.Cluster, "healthy")
			if a.Pos%step == 0 && a.Pos < 5000*step {
				o = stages.Observation{Cluster: a.Cluster, Attempt: a.Attempt, Sent: true, Failed: true, Message: fmt.Sprintf("%s: %0170d", a.Cluster, 0)}
			}
			in.Observations = append(in.Observations, o)
		}
		ready = Step(p, ready.Run, in)
	}
	return ready
}

// tolerant returns a plan whose clusters are tried once and may all fail.
func tolerant(tb testing.TB, clusters, flying int) *stages.Plan {
	p := benchPlan(tb, clusters, flying)
	p.Strategy.Attempts = 1
	for i := range p.Stages {
		p.Stages[i].MaxFailures, p.Stages[i].Groups[0].MaxFailures = -1, -1
	}
	return p
}

// Thousands of failures fit into the record: only the first keep their reason. For the others,
// Explain refers to the journal.
func TestFailuresAreBounded(t *testing.T) {
	p := tolerant(t, 10000, 500)
	for _, step := range []int{1, 2} { // side by side, and one by one
		r := manyFail(t, p, step).Run
		if size := recordSize(t, r); size > maxRecord {
			t.Errorf("the record has %d bytes", size)
		}
		if n := r.form.Stages[0].Groups[0].Failed; r.State != stages.Completed || n != 5000 {
			t.Fatalf("the run is %s and %d clusters have failed", r.State, n)
		}
		for pos, want := range map[int]string{0: "cluster-000000: 0000", 4999 * step: "the reason is in the run's journal"} {
			e, err := Explain(p, &r, p.Clusters[pos].Name)
			if err != nil || e.State != stages.Failed || e.Attempt != 1 || !strings.HasPrefix(e.Reason, want) {
				t.Errorf("%v, %v", e, err)
			}
		}
	}
}

// BenchmarkRecord measures the largest record of a run of 10,000 clusters when everything fails.
func BenchmarkRecord(b *testing.B) {
	b.Run("unreachable=6000", func(b *testing.B) {
		p, size := benchPlan(b, 10000, 100), 0
		for range b.N {
			_, size = outage(b, p, 6000)
		}
		b.ReportMetric(float64(size), "record-bytes")
	})
	b.Run("failed=5000", func(b *testing.B) {
		p, size := tolerant(b, 10000, 500), 0
		for range b.N {
			size = recordSize(b, manyFail(b, p, 2).Run)
		}
		b.ReportMetric(float64(size), "record-bytes")
	})
}
