package status

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// listedCluster is a cluster that is listed. At most one of flight, waiting and exception is set.
type listedCluster struct {
	pos       int
	state     stages.State
	flight    *runstate.InFlight
	waiting   *runstate.Retrying
	exception *runstate.Unsuccessful
}

func (p *runBuilder) count() {
	p.counts = make([]clusterCounts, len(p.Plan.Stages))
	for i := range p.Plan.Stages {
		for j := range p.Plan.Stages[i].Groups {
			p.counts[i].total += p.Plan.Stages[i].Groups[j].Len
		}
		for j := range p.Run.Form(runstate.Key{}).Stages[i].Groups {
			p.counts[i].completed += p.Run.Form(runstate.Key{}).Stages[i].Groups[j].Completed
		}
	}
	p.countUnsuccessful()
	if p.Run.Form(runstate.Key{}).Stage >= len(p.counts) {
		return
	}
	now := &p.counts[p.Run.Form(runstate.Key{}).Stage]
	now.waiting = len(p.Run.Form(runstate.Key{}).Waiting)
	for i := range p.Run.Form(runstate.Key{}).InFlight {
		if p.Run.Form(runstate.Key{}).InFlight[i].Attempt != 0 {
			now.inFlight++
		}
	}
}

// countUnsuccessful counts the skipped and failed clusters. The ranges in Unsuccessful are in the
// order of the plan, and a range may cover several stages.
func (p *runBuilder) countUnsuccessful() {
	first, i := 0, 0
	for _, e := range p.Run.Form(runstate.Key{}).Unsuccessful {
		for pos := e.First; pos <= e.Last; {
			for pos >= first+p.counts[i].total {
				first += p.counts[i].total
				i++
			}
			n := min(e.Last+1, first+p.counts[i].total) - pos
			if e.State == stages.Failed {
				p.counts[i].failed += n
			} else {
				p.counts[i].skipped += n
			}
			pos += n
		}
	}
}

// listClusters selects the listed clusters: all clusters of a small plan, in its order; of a large
// plan the clusters in trouble first.
func (p *runBuilder) listClusters() {
	p.sights = make([][]listedCluster, len(p.Plan.Stages))
	if p.Plan.Len() <= p.Listed {
		p.listAll()
		return
	}
	p.listUnsuccessful(func(e *runstate.Unsuccessful) bool { return e.State == stages.Failed })
	p.listInFlight(func(f *runstate.InFlight) bool { return f.Message != "" })
	for i := range p.Run.Form(runstate.Key{}).Waiting {
		y := &p.Run.Form(runstate.Key{}).Waiting[i]
		p.list(listedCluster{pos: y.Pos, state: stages.Pending, waiting: y})
	}
	p.listInFlight(func(f *runstate.InFlight) bool { return f.Message == "" })
	p.listUnsuccessful(func(e *runstate.Unsuccessful) bool { return e.State != stages.Failed && e.Reason != "" })
}

func (p *runBuilder) full() bool { return p.listed >= p.Listed }

func (p *runBuilder) list(s listedCluster) {
	if !p.full() {
		stage, _ := p.Plan.StageOf(s.pos)
		p.sights[stage] = append(p.sights[stage], s)
		p.listed++
	}
}

func (p *runBuilder) listUnsuccessful(wanted func(*runstate.Unsuccessful) bool) {
	for i := range p.Run.Form(runstate.Key{}).Unsuccessful {
		e := &p.Run.Form(runstate.Key{}).Unsuccessful[i]
		for pos := e.First; pos <= e.Last && !p.full() && wanted(e); pos++ {
			p.list(listedCluster{pos: pos, state: e.State, exception: e})
		}
	}
}

func (p *runBuilder) listInFlight(wanted func(*runstate.InFlight) bool) {
	for i := range p.Run.Form(runstate.Key{}).InFlight {
		if f := &p.Run.Form(runstate.Key{}).InFlight[i]; f.Attempt != 0 && !p.full() && wanted(f) {
			p.list(listedCluster{pos: f.Pos, state: stages.Running, flight: f})
		}
	}
}

func (p *runBuilder) listAll() {
	all := make([]listedCluster, p.Plan.Len())
	for pos, state := range p.Run.States(p.Plan) {
		all[pos] = listedCluster{pos: pos, state: state}
	}
	for i := range p.Run.Form(runstate.Key{}).InFlight {
		if f := &p.Run.Form(runstate.Key{}).InFlight[i]; f.Attempt != 0 {
			all[f.Pos].flight = f
		}
	}
	for i := range p.Run.Form(runstate.Key{}).Waiting {
		all[p.Run.Form(runstate.Key{}).Waiting[i].Pos].waiting = &p.Run.Form(runstate.Key{}).Waiting[i]
	}
	for i := range p.Run.Form(runstate.Key{}).Unsuccessful {
		for pos := p.Run.Form(runstate.Key{}).Unsuccessful[i].First; pos <= p.Run.Form(runstate.Key{}).Unsuccessful[i].Last; pos++ {
			all[pos].exception = &p.Run.Form(runstate.Key{}).Unsuccessful[i]
		}
	}
	for _, s := range all {
		p.list(s)
	}
}

// cluster returns the status of a cluster of a stage. KubeFleet's conditions report the start and
// the result. Between them, and while the cluster waits for a retry, a third condition reports the
// problem, if there is one.
func (p *runBuilder) cluster(stage int, s listedCluster) v1beta1.ClusterUpdatingStatus {
	run := &p.Run.Form(runstate.Key{}).Stages[stage]
	times := p.History.of(s.pos)
	start := cmp.Or(times.started, run.Started)
	if s.flight != nil {
		start = cmp.Or(times.started, s.flight.Started)
	}
	c := v1beta1.ClusterUpdatingStatus{ClusterName: p.Plan.Clusters[s.pos].Name}
	if p.Plan.Rollback != nil {
		c.ResourceSnapshotIndex = indexText(ShownIndex(p.Snapshots, p.Plan.IndexAt(s.pos)))
	}
	c.ClusterResourceOverrideSnapshots, c.ResourceOverrideSnapshots = p.overriding.names(c.ClusterName, p.Plan.IndexAt(s.pos))
	c.CheckStatus = clusterChecks(s.flight, times)
	if s.begun(times) {
		c.Conditions = append(c.Conditions, p.isTrue(api.ConditionStarted, api.ReasonClusterStarted, "Cluster update started", start))
	}
	end := cmp.Or(times.ended, p.skippedAt(s.pos), run.Done, run.Ended, p.Run.Ended, start)
	switch s.state {
	case stages.Completed:
		c.Conditions = append(c.Conditions, p.isTrue(api.ConditionSucceeded, api.ReasonClusterSucceeded, "Cluster update completed successfully", end))
	case stages.Failed:
		c.Conditions = append(c.Conditions, p.isFalse(api.ConditionSucceeded, api.ReasonClusterFailed, s.ending(), end))
	case stages.Skipped:
		c.Conditions = append(c.Conditions, p.isFalse(api.ConditionSucceeded, api.ReasonClusterSkipped, s.ending(), end))
	default:
		if reason, message := s.trouble(); message != "" {
			c.Conditions = append(c.Conditions, p.isFalse(api.ConditionProgressing, reason, message, max(times.changed, start)))
		}
	}
	return c
}

// begun reports whether the cluster was attempted.
func (s listedCluster) begun(t clusterTimes) bool {
	switch s.state {
	case stages.NotStarted:
		return false
	case stages.Skipped:
		return t.started != 0
	default:
		return true
	}
}

// skippedAt returns when the whole group of a cluster was skipped, zero if it was not.
func (p *runBuilder) skippedAt(pos int) stages.Instant {
	stage, group := p.Plan.StageOf(pos)
	st := &p.Plan.Stages[stage]
	return p.History.skipped[[2]string{st.Name, st.Groups[group].Name}]
}

// ending returns the reason why the cluster did not complete.
func (s listedCluster) ending() string {
	if s.exception == nil || s.exception.Reason == "" {
		return "the reason is in the run's journal, in the event of the cluster"
	}
	if s.exception.Attempts > 1 {
		return fmt.Sprintf("attempt %d: %s", s.exception.Attempts, s.exception.Reason)
	}
	return s.exception.Reason
}

// trouble returns the problem of a cluster that has not ended, "" if none is known.
func (s listedCluster) trouble() (reason, message string) {
	switch {
	case s.waiting != nil:
		message = s.waiting.Message
		if at := s.waiting.NotYet; at != 0 {
			message += "; next try at " + at.Time().Format(time.RFC3339)
		}
		return api.ReasonClusterPending, message
	case s.flight == nil || s.flight.Message == "":
		return "", ""
	}
	message = fmt.Sprintf("attempt %d: %s", s.flight.Attempt, s.flight.Message)
	switch s.flight.Phase {
	case stages.BackingOff:
		return api.ReasonClusterRetrying, message + "; next attempt at " + s.flight.Until.Time().Format(time.RFC3339)
	case stages.Applying:
		return api.ReasonClusterApplying, message
	default:
		return api.ReasonClusterSettling, message
	}
}
