package step

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// windowsOf is a calendar from a function. It counts its calls.
type windowsOf struct {
	asked *int
	of    func(pos int, at time.Time) stages.Window
}

// Window returns the window of a cluster.
func (c windowsOf) Window(pos int, at time.Time) stages.Window {
	*c.asked++
	return c.of(pos, at)
}

func calendarOf(of func(pos int, at time.Time) stages.Window) windowsOf {
	return windowsOf{new(int), of}
}

// opensAt is the window of a cluster that may start from open on.
func opensAt(at, open time.Time) stages.Window {
	if at.Before(open) {
		return stages.Window{Limited: true, Until: open}
	}
	return stages.Window{Limited: true, Open: true}
}

func begun(p *stages.Plan, c stages.Calendar) Ready {
	return Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, scriptEpoch), stages.Input{Now: scriptEpoch, Calendar: c})
}

// completes makes every cluster in flight healthy until the run ends, or until no cluster is in
// flight and the run has no time to wake at. It returns the largest record.
func completes(tb testing.TB, p *stages.Plan, ready Ready, c stages.Calendar) (last Ready, largest int) {
	now := ready.Run.Now.Time()
	for i := 0; ready.Run.State == stages.Running && i < 100000; i++ {
		in := stages.Input{Calendar: c}
		for _, a := range ready.Actions {
			in.Observations = append(in.Observations, (&scriptRun{plan: p, r: ready.Run}).observation(a.Cluster, "healthy"))
		}
		if len(in.Observations) == 0 {
			if ready.Wake.IsZero() {
				break
			}
			now = ready.Wake
		}
		in.Now = now
		ready = Step(p, ready.Run, in)
		if i%5 == 0 {
			largest = max(largest, recordSize(tb, ready.Run))
		}
	}
	return ready, largest
}

// A freeze of a whole fleet is one range in the run and one event. The calendar is read for a
// cluster when the run reaches it and when the freeze ends, but not in every step.
func TestFreezeOfAllClustersIsOneRange(t *testing.T) {
	const n = 10000
	p, open := benchPlan(t, n, 100), scriptEpoch.Add(24*time.Hour)
	c := calendarOf(func(_ int, at time.Time) stages.Window {
		w := opensAt(at, open)
		w.Reason = "the end of the quarter"
		return w
	})
	ready := begun(p, c)
	if g := ready.Run.form.Stages[0].Groups[0]; len(g.Deferred) != 1 || g.Next != n || g.Deferred[0].Reason != "the end of the quarter" {
		t.Errorf("%+v", g)
	}
	last := ready.Events[len(ready.Events)-1]
	if len(ready.Events) != 3 || last.Type != stages.ClusterPending || last.Count != n || last.Cluster != "" || !last.Until.Equal(open) {
		t.Errorf("%d events, the last is %+v", len(ready.Events), last)
	}
	if !ready.Wake.Equal(open) || recordSize(t, ready.Run) > 1<<10 {
		t.Errorf("it wakes at %s, and its record has %d bytes", ready.Wake, recordSize(t, ready.Run))
	}
	for i := range 100 {
		ready = Step(p, ready.Run, stages.Input{Now: scriptEpoch.Add(time.Duration(i) * time.Minute), Calendar: c})
	}
	if *c.asked != n {
		t.Errorf("the calendar was asked %d times", *c.asked)
	}
	if ready, _ = completes(t, p, ready, c); ready.Run.State != stages.Completed || *c.asked > 3*n {
		t.Errorf("the run is %s, and the calendar was asked %d times", ready.Run.State, *c.asked)
	}
}

// The ranges and the record are bounded even if windows alternate. Clusters that find no room wait
// for their turn, and each gets it.
func TestAlternatingWindowsAreBounded(t *testing.T) {
	p := benchPlan(t, 4000, 100)
	for _, profile := range []stages.Profile{stages.Staged, stages.ClusterUpdate} {
		p.Strategy.Profile = profile
		c := calendarOf(func(pos int, at time.Time) stages.Window {
			if pos%2 == 0 {
				return stages.Window{}
			}
			w := opensAt(at, scriptEpoch.Add(time.Duration(1+pos%7)*time.Hour))
			w.Reason = fmt.Sprintf("%0100d", pos)
			return w
		})
		ready, largest := completes(t, p, begun(p, c), c)
		if ready.Run.State != stages.Completed || largest > maxRecord/2 {
			t.Errorf("%s: the run is %s, its record had %d bytes", profile, ready.Run.State, largest)
		}
	}
}

// Once there are 1024 ranges, no further cluster lets others go first.
func TestDeferredRangesAreBounded(t *testing.T) {
	p := benchPlan(t, 4000, 1)
	c := calendarOf(func(pos int, _ time.Time) stages.Window { return stages.Window{Limited: pos%2 == 0, Open: pos%2 == 1} })
	ready, _ := completes(t, p, begun(p, c), c)
	g := ready.Run.form.Stages[0].Groups[0]
	if len(g.Deferred) != maxDeferred || g.Completed != maxDeferred-1 || len(Waiting(p, &ready.Run)) != 1 {
		t.Errorf("%d ranges, %d completed, waits for %v", len(g.Deferred), g.Completed, Waiting(p, &ready.Run))
	}
	in := stages.Input{Now: scriptEpoch, Calendar: c, Commands: []stages.Command{{ID: "1", Verb: stages.Skip, Scope: stages.SkipCluster, Name: p.Clusters[0].Name}}}
	if ready = Step(p, ready.Run, in); len(ready.Actions) != 1 || ready.Actions[0].Pos != 2*maxDeferred-1 {
		t.Errorf("%+v", ready.Actions)
	}
}

// Skipping a stage in which no cluster could start is one event.
func TestSkippingAStageThatWaitsForWindowsIsOneEvent(t *testing.T) {
	p := benchPlan(t, 10000, 100)
	c := calendarOf(func(pos int, _ time.Time) stages.Window { return stages.Window{Limited: true, Open: pos == 17} })
	in := stages.Input{Now: scriptEpoch, Calendar: c, Commands: []stages.Command{{ID: "1", Verb: stages.Skip, Scope: stages.SkipStage, Name: "all"}}}
	ready := Step(p, begun(p, c).Run, in)
	if len(ready.Events) != 1 || ready.Events[0].Count != 9999 || ready.Run.form.Stages[0].Groups[0].Skipped != 9999 {
		t.Errorf("%d events, the first %+v", len(ready.Events), ready.Events[0])
	}
	if ready, _ = completes(t, p, ready, c); ready.Run.State != stages.Completed {
		t.Errorf("the run is %s", ready.Run.State)
	}
}

// A retry of many clusters that were skipped before they started keeps them as
// ranges.
func TestRetryOfSkippedClustersIsSmall(t *testing.T) {
	p := benchPlan(t, 10000, 100)
	begin := begun(p, nil)
	in := stages.Input{Now: scriptEpoch, Observations: []stages.Observation{{Cluster: p.Clusters[0].Name, Attempt: 1, Skipped: true, Message: "at r1 already"}}}
	for pos := 100; pos < 10000; pos++ {
		if pos != 5000 {
			in.Commands = append(in.Commands, stages.Command{ID: fmt.Sprint(pos), Verb: stages.Skip, Scope: stages.SkipCluster, Name: p.Clusters[pos].Name})
		}
	}
	ready := Step(p, begin.Run, in)
	// Cluster 5000 has the slot of the first cluster, so the cursor is after it.
	retry := []stages.Command{{ID: "retry", Verb: stages.Retry, Only: stages.OnlySkipped}}
	ready = Step(p, ready.Run, stages.Input{Now: scriptEpoch, Commands: retry})
	if r := &ready.Run; len(r.form.Unsuccessful) != 0 || len(r.form.Waiting) != 1 || len(r.form.Stages[0].Groups[0].Deferred) > 2 {
		t.Errorf("%d unsuccessful ranges, %d wait, %d ranges", len(r.form.Unsuccessful), len(r.form.Waiting), len(r.form.Stages[0].Groups[0].Deferred))
	}
	if e := ready.Events[0]; e.Type != stages.RunRetried || e.Count != 9900 {
		t.Errorf("%+v", e)
	}
	if ready, _ = completes(t, p, ready, nil); ready.Run.State != stages.Completed || ready.Run.form.Stages[0].Groups[0].Completed != 10000 {
		t.Errorf("the run is %s, %+v", ready.Run.State, ready.Run.form.Stages[0].Groups[0])
	}
}

// The calendar is read for a cluster when it starts, even if it was read before and no change of
// the calendar was announced.
func TestAClusterIsAskedForWhenItStarts(t *testing.T) {
	p := benchPlan(t, 3, 1)
	p.Strategy.Profile = stages.ClusterUpdate
	frozen := false
	c := calendarOf(func(pos int, at time.Time) stages.Window {
		switch {
		case frozen:
			return opensAt(at, scriptEpoch.Add(time.Hour))
		case pos == 2:
			return stages.Window{Limited: true, Open: true}
		default:
			return stages.Window{}
		}
	})
	ready := begun(p, c)
	if len(ready.Actions) != 1 || ready.Actions[0].Pos != 2 {
		t.Fatalf("%+v", ready.Actions)
	}
	frozen = true
	done := (&scriptRun{plan: p, r: ready.Run}).observation(p.Clusters[2].Name, "healthy")
	ready = Step(p, ready.Run, stages.Input{Now: scriptEpoch, Calendar: c, Observations: []stages.Observation{done}})
	if len(ready.Actions) != 0 || !ready.Wake.Equal(scriptEpoch.Add(time.Hour)) {
		t.Errorf("%+v, wakes at %s", ready.Actions, ready.Wake)
	}
	if ready, _ = completes(t, p, ready, c); ready.Run.State != stages.Completed {
		t.Errorf("the run is %s", ready.Run.State)
	}
}

// A window that changes within a millisecond is read again at the end of that millisecond.
func TestWindowsAreRoundedUp(t *testing.T) {
	p, open := benchPlan(t, 1, 1), scriptEpoch.Add(time.Minute+time.Microsecond)
	c := calendarOf(func(_ int, at time.Time) stages.Window { return opensAt(at, open) })
	ready := begun(p, c)
	if want := scriptEpoch.Add(time.Minute + time.Millisecond); !ready.Wake.Equal(want) {
		t.Errorf("it wakes at %s, not %s", ready.Wake, want)
	}
	if ready = Step(p, ready.Run, stages.Input{Now: ready.Wake, Calendar: c}); len(ready.Actions) != 1 {
		t.Errorf("%+v", ready.Actions)
	}
	// A window whose change is already over does not keep the run busy.
	c = calendarOf(func(_ int, at time.Time) stages.Window {
		return stages.Window{Limited: true, Until: at.Add(-time.Hour)}
	})
	if ready = begun(p, c); !ready.Wake.Equal(scriptEpoch.Add(time.Millisecond)) || *c.asked != 1 {
		t.Errorf("it wakes at %s, and the calendar was asked %d times", ready.Wake, *c.asked)
	}
}

// Each of several clusters that wait together starts when its own window opens. A step without a
// change is not saved.
func TestClustersThatWaitTogetherStartEachInItsWindow(t *testing.T) {
	w := newScriptEnv()
	w.setClusters("m1\nm2\nm3\n")
	w.setStrategy("stages: [{name: all, labelSelector: {}, maxConcurrency: 3}]")
	w.setCalendar("m1 3h-9h\nm2 1h-9h\nm3 2h-9h\n")
	w.say("plan")
	w.says(t, "Running: wake 1h0m0s", "start")
	w.says(t, "Running: apply m2#1 wake 2h0m0s", "step t=1h")
	w.says(t, "Running: apply m2#1 apply m3#1 wake 3h0m0s", "step t=1h")
	w.says(t, "Running: apply m2#1 apply m3#1 apply m1#1", "step t=1h")
	w = newScriptEnv()
	w.setClusters("m1\n")
	w.setStrategy("stages: [{name: all, labelSelector: {}}]\nbackoff: 1s")
	w.setCalendar("m1 0s-1s\n")
	w.say("plan", "start", "observe m1 unreachable")
	w.says(t, "Running", "step t=1s")
	if w.say("step t=1s"); w.cur.last.Changed {
		t.Error("something changed")
	}
}
