package step

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// complete makes every cluster in flight healthy until nothing moves.
func complete(p *stages.Plan, ready Ready, now time.Time) Ready {
	for i := 0; len(ready.Actions) > 0 && i < 1000; i++ {
		in := stages.Input{Now: now}
		for _, a := range ready.Actions {
			in.Observations = append(in.Observations, (&scriptRun{plan: p, r: ready.Run}).observation(a.Cluster, "healthy"))
		}
		ready = Step(p, ready.Run, in)
	}
	return ready
}

func TestStepNeedsNoTime(t *testing.T) {
	p := benchPlan(t, 5, 2)
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, time.Time{}), stages.Input{})
	for range 3 { // a stage is reached once, and its clusters start once
		ready = Step(p, ready.Run, stages.Input{})
	}
	if len(ready.Actions) != 2 {
		t.Errorf("%d clusters are in flight", len(ready.Actions))
	}
	if ready = complete(p, ready, time.Time{}); ready.Run.State != stages.Completed {
		t.Errorf("the run is %s", ready.Run.State)
	}
}

func TestStepMayBeCalledConcurrently(t *testing.T) {
	p := benchPlan(t, 50, 10)
	begin := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, scriptEpoch), stages.Input{Now: scriptEpoch})
	want := dump(complete(p, begin, scriptEpoch))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if diff := cmp.Diff(want, dump(complete(p, begin, scriptEpoch))); diff != "" {
				t.Error(diff)
			}
		})
	}
	wg.Wait()
}

// Texts from clusters and people are cut before the run keeps them.
func TestRunKeepsBoundedTexts(t *testing.T) {
	p := benchPlan(t, 2, 1)
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, scriptEpoch), stages.Input{Now: scriptEpoch})
	long := strings.Repeat("ä€x", 1000)
	ready = Step(p, ready.Run, stages.Input{Now: scriptEpoch, Observations: []stages.Observation{{
		Cluster: ready.Actions[0].Cluster, Attempt: 1, Sent: true, Failed: true, Message: long,
	}}})
	m := ready.Run.form.InFlight[0].Message
	if len(m) > 256 || !utf8.ValidString(m) || !strings.HasSuffix(m, "…") {
		t.Errorf("%d bytes: %q", len(m), m)
	}
	ready = Step(p, ready.Run, stages.Input{Now: scriptEpoch, Commands: []stages.Command{{ID: "1", Verb: stages.Stop, Message: long}}})
	if len(ready.Run.Reason) > 256 {
		t.Errorf("the reason has %d bytes", len(ready.Run.Reason))
	}
}

// A run remembers the latest commands, not all.
func TestRunRemembersTheLatestCommands(t *testing.T) {
	p := benchPlan(t, 2, 1)
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, scriptEpoch), stages.Input{Now: scriptEpoch})
	for i := range 200 {
		verb := stages.Stop
		if i%2 == 1 {
			verb = stages.Start
		}
		ready = Step(p, ready.Run, stages.Input{Now: scriptEpoch, Commands: []stages.Command{{ID: fmt.Sprint(i), Verb: verb}}})
	}
	if n := len(ready.Run.form.Seen); n != 64 {
		t.Errorf("%d commands are remembered", n)
	}
	if again := Step(p, ready.Run, stages.Input{Now: scriptEpoch, Commands: []stages.Command{{ID: "150", Verb: stages.Stop}}}); again.Changed {
		t.Error("a command was carried out twice")
	}
}

// For any number of unreachable clusters, and however long a connection takes to fail, the other
// clusters get their turn.
func TestUnreachableClustersDoNotStarveOthers(t *testing.T) {
	p := benchPlan(t, 20, 1)
	now := scriptEpoch
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
	for range 60 {
		now = now.Add(10 * time.Second)
		in := stages.Input{Now: now}
		for _, a := range ready.Actions {
			word := "healthy"
			if a.Pos < 5 {
				word = "unreachable"
			}
			in.Observations = append(in.Observations, (&scriptRun{plan: p, r: ready.Run}).observation(a.Cluster, word))
		}
		ready = Step(p, ready.Run, in)
	}
	if n := ready.Run.form.Stages[0].Groups[0].Completed; n != 15 {
		t.Errorf("%d of 15 clusters that can be reached have completed", n)
	}
}

// Reports about other attempts and unknown clusters change nothing.
func TestStrayReportsChangeNothing(t *testing.T) {
	p := benchPlan(t, 3, 1)
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, scriptEpoch), stages.Input{Now: scriptEpoch})
	in := stages.Input{Now: scriptEpoch, Gone: []string{"", "missing"}, Observations: []stages.Observation{
		{},
		{Cluster: "missing", Attempt: 1, Healthy: true},
		{Cluster: p.Clusters[0].Name},
		{Cluster: p.Clusters[0].Name, Attempt: -1, Failed: true},
		{Cluster: p.Clusters[2].Name, Attempt: 1, Applied: true, Revision: "r1", Current: true, Healthy: true},
	}}
	if next := Step(p, ready.Run, in); next.Changed {
		t.Errorf("%v", next.Events)
	}
}

// An action reports that the member may have been changed for as long as the run keeps the cluster:
// over attempts, a stop and a restart.
func TestActionsReportSent(t *testing.T) {
	p := benchPlan(t, 1, 1)
	now := scriptEpoch
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
	if ready.Actions[0].Sent {
		t.Error("nothing was sent")
	}
	for _, word := range []string{"sent", "failed", "unreachable"} {
		now = now.Add(time.Minute)
		o := (&scriptRun{plan: p, r: ready.Run}).observation(p.Clusters[0].Name, word)
		ready = Step(p, reloaded(ready.Run), stages.Input{Now: now, Observations: []stages.Observation{o}})
		ready = Step(p, reloaded(ready.Run), stages.Input{Now: now.Add(time.Second)})
		if len(ready.Actions) != 1 || !ready.Actions[0].Sent {
			t.Errorf("%s: %+v", word, ready.Actions)
		}
	}
	in := stages.Input{Now: now.Add(time.Second), Commands: []stages.Command{{ID: "1", Verb: stages.Stop}}}
	in.Observations = []stages.Observation{{Cluster: p.Clusters[0].Name, Attempt: 2, Failed: true}}
	ready = Step(p, ready.Run, in)
	ready = Step(p, reloaded(ready.Run), stages.Input{Now: now.Add(time.Minute), Commands: []stages.Command{{ID: "2", Verb: stages.Start}}})
	if a := ready.Actions; len(a) != 1 || a[0].Attempt != 3 || !a[0].Sent {
		t.Errorf("after a stop: %+v", a)
	}
}

// Since is the time when a cluster first yielded, even after many retries.
func TestSinceIsTheFirstYield(t *testing.T) {
	p := benchPlan(t, 1, 1)
	now := scriptEpoch
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
	events := 0
	for range 120 { // an hour and more: the interval grows to a minute
		for _, a := range ready.Actions {
			now = now.Add(5 * time.Second)
			o := stages.Observation{Cluster: a.Cluster, Attempt: 1, Unreachable: true, Message: "no route to host"}
			ready = Step(p, ready.Run, stages.Input{Now: now, Observations: []stages.Observation{o}})
			events += len(ready.Events)
		}
		if w := ready.Run.form.Waiting; len(w) == 1 && w[0].Since != stages.At(scriptEpoch.Add(5*time.Second)) {
			t.Fatalf("since %v", w[0].Since.Time())
		}
		now = ready.Wake
		ready = Step(p, ready.Run, stages.Input{Now: now})
	}
	if now.Sub(scriptEpoch) < time.Hour || events != 1 {
		t.Errorf("%d events in %v", events, now.Sub(scriptEpoch))
	}
}
