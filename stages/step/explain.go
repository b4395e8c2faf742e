package step

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// Waiting returns everything that a run waits for. It is empty only if the run has ended or does
// not belong to the plan, see [Run.Check].
func Waiting(p *stages.Plan, r *Run) []stages.Awaited {
	if r.Check(p) != nil {
		return nil
	}
	switch r.State {
	case stages.NotStarted, stages.Stopped:
		return []stages.Awaited{{Kind: stages.AwaitStart, Name: r.Name, Message: r.Reason}}
	case stages.Pending:
		return []stages.Awaited{{Kind: stages.AwaitRun, Name: r.Ahead, Message: r.Reason}}
	case stages.Running, stages.Stopping:
		return waitingNow(p, r)
	default:
		return nil
	}
}

func waitingNow(p *stages.Plan, r *Run) []stages.Awaited {
	var out []stages.Awaited
	d := reading(p, r)
	for gs, g := range gatesOf(d).open {
		switch {
		case d.r.isEnding():
		case g.Type == stages.CheckTask:
			out = append(out, gs.awaitedChecks(g)...)
		default:
			out = append(out, gs.awaited(g))
		}
	}
	if st, run, ok := d.stage(); ok && r.State == stages.Running {
		out = append(out, timeoutsAwaited(st, run)...)
		if why := blockingChecks(run); why != "" {
			out = append(out, stages.Awaited{Kind: stages.AwaitCheck, Name: st.Name, Message: "no cluster starts: " + why})
		}
	}
	for i := range r.form.InFlight {
		if f := &r.form.InFlight[i]; f.Attempt != 0 {
			out = append(out, awaitsInFlight(p, r, f))
		}
	}
	out = append(out, windowsAwaited(p, r)...)
	for i := range r.form.Waiting {
		out = append(out, awaitsRetry(p, r, &r.form.Waiting[i]))
	}
	if r.form.Capped {
		out = append(out, stages.Awaited{Kind: stages.AwaitCap, Name: p.Strategy.Cap, Message: "what runs may have in flight together is used up, or it is the turn of another one"})
	}
	return out
}

// timeoutsAwaited returns the timeouts of a stage and its groups that have begun.
func timeoutsAwaited(st *stages.PlannedStage, run *runstate.StageRun) (out []stages.Awaited) {
	if run.Clock.Deadline != 0 {
		out = append(out, stages.Awaited{Kind: stages.AwaitTimeout, Name: st.Name, Until: run.Clock.Deadline.Time()})
	}
	for i := range run.Groups {
		if gr := &run.Groups[i]; gr.Clock.Deadline != 0 && gr.Ended == 0 {
			out = append(out, stages.Awaited{Kind: stages.AwaitTimeout, Name: st.Name + "/" + st.Groups[i].Name, Until: gr.Clock.Deadline.Time()})
		}
	}
	return out
}

// awaited returns the condition that an open gate waits for.
func (gs *gates) awaited(g *runstate.Gate) stages.Awaited {
	if g.Type == stages.Approval {
		req := gs.request(g)
		return stages.Awaited{Kind: stages.AwaitDecision, Name: req.Name, Until: g.Until.Time(), Message: missing(req)}
	}
	a := stages.Awaited{Kind: stages.AwaitTime, Name: gs.d.p.Stages[gs.d.r.form.Stage].Name, Until: g.Until.Time(), Message: "timed wait"}
	if gs.group != "" {
		a.Name += "/" + gs.group
	}
	if g.Type == stages.ScheduledStart {
		a.Message = stages.ScheduledStartMessage
	}
	return a
}

// awaitedChecks returns the checks that a gate waits for.
func (gs *gates) awaitedChecks(g *runstate.Gate) (out []stages.Awaited) {
	pg := gs.plannedOf(g)
	for i := range g.Checks {
		r := &g.Checks[i]
		if r.Phase == check.Successful && r.Next == 0 {
			continue
		}
		stage := gs.d.p.Stages[gs.d.r.form.Stage].Name
		a := stages.Awaited{
			Kind: stages.AwaitCheck, Name: r.Name, Until: g.Until.Time(),
			Message: fmt.Sprintf("%s: %s", where(g.When, stage, gs.group), r.Progress(&pg.Checks[i], gs.d.r.Now)),
		}
		if r.Phase == check.Inconclusive {
			then, skip := "another run measures it", "skip stage "+stage
			if s := &gs.d.p.Strategy; s.Profile == stages.ClusterUpdate || s.Suspends() {
				then = "start measures it again then"
			}
			if gs.group != "" {
				skip = "skip group " + stage + "/" + gs.group
			}
			a.Message += notAgain("the run has failed", a.Until, then, skip)
		}
		out = append(out, a)
	}
	return out
}

// notAgain describes the consequence of a check that has ended as Inconclusive, its time, and the
// remedy.
func notAgain(follows string, expires time.Time, then, now string) string {
	return fmt.Sprintf("; it is not measured again: %s when it expires, at %s, and %s; to go on without it, %s", follows, expires.Format(time.RFC3339), then, now)
}

func missing(req approval.Request) string {
	var out, also string
	anybody := false
	for _, q := range approval.Wanted(req) {
		if q.Count == 0 {
			also += ", an approval by " + cmp.Or(q.Group, "anybody") + " counts, too"
			continue
		}
		if out != "" {
			out += ", "
		}
		noun := "approvals"
		if q.Count == 1 {
			noun = "approval"
		}
		out += fmt.Sprintf("%d more %s", q.Count, noun)
		if q.Group != "" {
			out += " by " + q.Group
		}
		anybody = anybody || q.Group == ""
	}
	if anybody {
		also = ""
	}
	return out + " needed" + also
}

// windowsAwaited names the groups of the current stage with clusters that are outside their
// windows.
func windowsAwaited(p *stages.Plan, r *Run) []stages.Awaited {
	if r.form.Stage >= len(p.Stages) || r.isBypassed() {
		return nil
	}
	st := &p.Stages[r.form.Stage]
	var out []stages.Awaited
	for i := range r.form.Stages[r.form.Stage].Groups {
		n, first := 0, alarm{now: r.Now}
		for _, c := range r.form.Stages[r.form.Stage].Groups[i].Deferred {
			if c.Closed {
				n += c.Last - c.First + 1
				first.at(c.NotYet)
			}
		}
		if n == 0 {
			continue
		}
		a := stages.Awaited{Kind: stages.AwaitWindow, Name: st.Name, Until: first.first.Time(), Message: fmt.Sprintf("%d outside their maintenance windows", n)}
		if name := st.Groups[i].Name; name != "" {
			a.Name += "/" + name
		}
		out = append(out, a)
	}
	return out
}

func awaitsRetry(p *stages.Plan, r *Run, y *runstate.Retrying) stages.Awaited {
	a := stages.Awaited{Kind: stages.AwaitTime, Name: p.Clusters[y.Pos].Name, Until: y.NotYet.Time(), Message: y.Message}
	if y.Closed {
		a.Kind = stages.AwaitWindow
	}
	if limit := p.Strategy.UnreachableDeadline.Duration; limit > 0 && y.Tries > 0 && !y.Closed && !p.Stages[r.form.Stage].Remove {
		a.Message += "; it fails if it is not reached by " + y.Since.Add(limit).Time().UTC().Format(time.RFC3339)
	}
	return a
}

func awaitsInFlight(p *stages.Plan, r *Run, f *runstate.InFlight) stages.Awaited {
	a := stages.Awaited{Kind: stages.AwaitObservation, Name: p.Clusters[f.Pos].Name, Message: f.Message}
	switch f.Phase {
	case stages.Soaking:
		a.Kind, a.Until = stages.AwaitTime, f.SoakEnds.Time()
	case stages.BackingOff:
		a.Kind, a.Until = stages.AwaitTime, f.NotYet.Time()
	case stages.Applying:
		if a.Message == "" {
			a.Message = "being applied"
		}
	case stages.Settling:
		if a.Message == "" {
			a.Message = "applied; not yet proven healthy"
		}
	case stages.Measuring:
		var measured []string
		for i := range f.Checks.Checks {
			if run := &f.Checks.Checks[i]; run.Phase != check.Successful {
				measured = append(measured, run.Progress(&p.Stages[r.form.Stage].ClusterChecks[i], r.Now))
			}
		}
		a.Kind, a.Until, a.Message = stages.AwaitCheck, f.Checks.Until.Time(), "healthy, and measured: "+strings.Join(measured, "; ")
		if isInconclusive(f.Checks.Checks) {
			a.Message += notAgain("the cluster has failed", a.Until, "retry, or a run that catches up, measures it again", "skip the cluster")
		}
	}
	return a
}

// planned lists the clusters of a plan, at most ten.
func planned(p *stages.Plan) string {
	names := make([]string, len(p.Clusters))
	for i := range p.Clusters {
		names[i] = p.Clusters[i].Name
	}
	return listed(names)
}

// listed joins the first names, and the number of the others.
func listed(names []string) string {
	const most = 10
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}

// Explain returns the state of the cluster in the run and the conditions that it waits for. It
// fails if the cluster is not in the plan. If the run does not belong to the plan, it returns the
// error of [Run.Check].
func Explain(p *stages.Plan, r *Run, cluster string) (stages.Explanation, error) {
	if err := r.Check(p); err != nil {
		return stages.Explanation{}, err
	}
	pos, ok := p.Position(cluster)
	if !ok {
		return stages.Explanation{}, fmt.Errorf("run %s: cluster %s is not in the plan (%s): %s", r.Name, cluster, planned(p), p.Rollback.Absent(cluster))
	}
	stage, group := p.StageOf(pos)
	e := stages.Explanation{
		Run: r.Name, Cluster: cluster, Stage: p.Stages[stage].Name, Group: p.Stages[stage].Groups[group].Name,
	}
	book := newLookup(p, r)
	e.State = book.State(pos)
	switch e.State {
	case stages.Skipped, stages.Failed:
		x := runstate.UnsuccessfulAt(r.form.Unsuccessful, pos)
		if e.Reason = x.Reason; e.State == stages.Failed {
			e.Attempt = x.Attempts
		}
		if e.Reason == "" {
			e.Reason = "the reason is in the run's journal, in the event of the cluster"
		}
		if r.MayHaveChanged(pos, e.State) {
			e.Reason += r.form.RollbackRequest.Sentence()
		}
	case stages.Completed:
		e.Reason = fmt.Sprintf("the cluster has snapshot %d: it was read back and is healthy", p.IndexAt(pos))
		if p.Stages[stage].Remove {
			e.Reason = "the cluster is clean: it was read back"
		}
		e.Reason += p.Rollback.AsBefore() + r.form.RollbackRequest.Sentence()
	case stages.Running:
		f := book.InFlight(pos)
		e.Attempt, e.Waiting = f.Attempt, []stages.Awaited{awaitsInFlight(p, r, f)}
		e.Reason = "in flight"
		if r.State == stages.Stopped {
			e.Reason, e.Waiting = "in flight when the run was stopped", Waiting(p, r)
		}
	case stages.Pending:
		if out := r.deferredAt(p, pos); out != nil {
			e.Reason = cmp.Or(out.Reason, "outside its maintenance window")
			next := alarm{now: r.Now}
			next.at(out.NotYet)
			e.Waiting = []stages.Awaited{{Kind: stages.AwaitWindow, Name: cluster, Until: next.first.Time(), Message: e.Reason}}
			break
		}
		y := book.Retrying(pos)
		e.Attempt, e.Reason = y.Attempt, "to be started again: "+y.Message
		e.Waiting = []stages.Awaited{awaitsRetry(p, r, y)}
	default:
		e.Reason, e.Waiting = notStarted(p, r, pos), Waiting(p, r)
	}
	return e, nil
}

// notStarted returns why the cluster at pos has not started.
func notStarted(p *stages.Plan, r *Run, pos int) string {
	stage, group := p.StageOf(pos)
	switch {
	case r.IsEnded():
		return "the run ended before the cluster's turn: it is " + string(r.State)
	case r.State != stages.Running:
		return "the run is " + string(r.State)
	case stage > r.form.Stage:
		return "stage " + p.Stages[r.form.Stage].Name + " is not done"
	case r.form.Stages[stage].Started == 0:
		return "the stage waits at its gates"
	case !runstate.IsNext(&p.Stages[stage].Groups[group], &r.form.Stages[stage]):
		return "the group waits for those that it depends on"
	case !r.form.Stages[stage].Groups[group].Admits(&p.Stages[stage].Groups[group], &r.form.Stages[stage]):
		return "the group waits at its gates"
	}
	if why := blockingChecks(&r.form.Stages[stage]); why != "" {
		return "no cluster of the stage starts: " + why
	}
	if d := reading(p, r).load().full(p.Clusters[pos].Cell); d != nil {
		return fmt.Sprintf("its failure domain is full: %d of %d clusters of %s may be in flight, and are", d.MaxConcurrency, d.Clusters, d)
	}
	if n := (&starter{draft: reading(p, r)}).keptFrom(pos); n > 0 {
		return fmt.Sprintf("its group keeps %d of its slots for clusters that an earlier run changed and did not prove", n)
	}
	if r.form.Capped {
		return "cap " + p.Strategy.Cap + ", which several runs share, is used up"
	}
	return "the clusters in flight use up the stage's concurrency"
}
