package status

import (
	"strconv"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// listedCluster is a cluster that is listed. At most one of flight, waiting and exception is set.
type listedCluster struct {
	pos       int
	state     stages.State
	flight    *runstate.InFlight
	waiting   *runstate.Retrying
	exception *runstate.Unsuccessful
}

// listing selects the clusters that the status of a run lists.
type listing struct {
	plan *stages.Plan
	run  *runstate.Form
	// byStage has the listed clusters of each stage. There are n in all stages, at most most.
	byStage [][]listedCluster
	n, most int
}

// newListing lists all clusters of a small plan, in its order; of a large plan the clusters in
// trouble first.
func newListing(plan *stages.Plan, run *step.Run, most int) *listing {
	l := &listing{plan: plan, run: run.Form(runstate.Key{}), byStage: make([][]listedCluster, len(plan.Stages)), most: most}
	if plan.Len() <= most {
		l.addAll(run)
		return l
	}
	l.addUnsuccessful(func(e *runstate.Unsuccessful) bool { return e.State == stages.Failed })
	l.addInFlight(func(f *runstate.InFlight) bool { return f.Message != "" })
	for i := range l.run.Waiting {
		y := &l.run.Waiting[i]
		l.add(listedCluster{pos: y.Pos, state: stages.Pending, waiting: y})
	}
	l.addInFlight(func(f *runstate.InFlight) bool { return f.Message == "" })
	l.addUnsuccessful(func(e *runstate.Unsuccessful) bool { return e.State != stages.Failed && e.Reason != "" })
	return l
}

func (l *listing) isFull() bool { return l.n >= l.most }

func (l *listing) add(s listedCluster) {
	if !l.isFull() {
		stage, _ := l.plan.StageOf(s.pos)
		l.byStage[stage] = append(l.byStage[stage], s)
		l.n++
	}
}

func (l *listing) addUnsuccessful(wanted func(*runstate.Unsuccessful) bool) {
	for i := range l.run.Unsuccessful {
		e := &l.run.Unsuccessful[i]
		for pos := e.First; pos <= e.Last && !l.isFull() && wanted(e); pos++ {
			l.add(listedCluster{pos: pos, state: e.State, exception: e})
		}
	}
}

func (l *listing) addInFlight(wanted func(*runstate.InFlight) bool) {
	for i := range l.run.InFlight {
		if f := &l.run.InFlight[i]; f.Attempt != 0 && !l.isFull() && wanted(f) {
			l.add(listedCluster{pos: f.Pos, state: stages.Running, flight: f})
		}
	}
}

func (l *listing) addAll(run *step.Run) {
	all := make([]listedCluster, l.plan.Len())
	for pos, state := range run.States(l.plan) {
		all[pos] = listedCluster{pos: pos, state: state}
	}
	for i := range l.run.InFlight {
		if f := &l.run.InFlight[i]; f.Attempt != 0 {
			all[f.Pos].flight = f
		}
	}
	for i := range l.run.Waiting {
		y := &l.run.Waiting[i]
		all[y.Pos].waiting = y
	}
	for i := range l.run.Unsuccessful {
		e := &l.run.Unsuccessful[i]
		for pos := e.First; pos <= e.Last; pos++ {
			all[pos].exception = e
		}
	}
	for _, s := range all {
		l.add(s)
	}
}

// note returns the note that the status omits clusters, nil if it lists all of them.
func (l *listing) note() *v1beta1.ClusterListing {
	if l.plan.Len() <= l.most {
		return nil
	}
	return &v1beta1.ClusterListing{
		Listed: int32(l.n), Total: int32(l.plan.Len()),
		Message: "Only clusters that failed, are in flight, wait or were skipped are listed, " + strconv.Itoa(l.most) +
			" at most; the run's journal has the result of every other cluster",
	}
}
