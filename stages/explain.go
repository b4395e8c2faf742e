package stages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// Await is a kind of cause for which a run waits.
type Await string

// What a run may wait for.
const (
	AwaitStart       Await = "Start"       // a Start command
	AwaitRun         Await = "Run"         // another run to end
	AwaitTime        Await = "Time"        // a moment
	AwaitWindow      Await = "Window"      // windows of clusters to open
	AwaitDecision    Await = "Decision"    // a decision on a request
	AwaitCap         Await = "Cap"         // a cap that runs share to have room
	AwaitCheck       Await = "Check"       // measurements
	AwaitTimeout     Await = "Timeout"     // the end of the time that a stage or a group may take
	AwaitObservation Await = "Observation" // what a cluster in flight turns out to be
)

// Awaited is a cause for which a run waits.
type Awaited struct {
	Kind Await `json:"kind"`
	// Name is the run, the stage, the group as <stage>/<group>, the request, the cap
	// or the cluster.
	Name string `json:"name,omitempty"`
	// Until is when the wait ends by itself; zero if it does not.
	Until   time.Time `json:"until,omitzero"`
	Message string    `json:"message,omitempty"`
}

// waitsFor begins the reason of a run that is Pending; the other run's name
// follows.
const waitsFor = "waits for run "

// Waiting returns everything that a run waits for. It is empty only for a run that has ended, and for one
// that is not of the plan, by [Check].
func Waiting(p *Plan, r *Run) []Awaited {
	if Check(p, r) != nil {
		return nil
	}
	switch r.State {
	case NotStarted, Stopped:
		return []Awaited{{Kind: AwaitStart, Name: r.Name, Message: r.Reason}}
	case Pending:
		return []Awaited{{Kind: AwaitRun, Name: strings.TrimPrefix(r.Reason, waitsFor), Message: r.Reason}}
	case Running, Stopping:
		return waitingNow(p, r)
	default:
		return nil
	}
}

func waitingNow(p *Plan, r *Run) []Awaited {
	var out []Awaited
	d := reading(p, r)
	for gs, g := range d.eachOpen {
		switch {
		case d.isEnding():
		case g.Type == CheckTask:
			out = append(out, gs.awaitedChecks(g)...)
		default:
			out = append(out, gs.awaited(g))
		}
	}
	if st, run, ok := d.stage(); ok && r.State == Running {
		out = append(out, timeoutsAwaited(st, run)...)
		if why := held(run); why != "" {
			out = append(out, Awaited{Kind: AwaitCheck, Name: st.Name, Message: "no cluster starts: " + why})
		}
	}
	for i := range r.InFlight {
		if f := &r.InFlight[i]; f.Attempt != 0 {
			out = append(out, awaitsInFlight(p, r, f))
		}
	}
	out = append(out, windowsAwaited(p, r)...)
	for i := range r.Waiting {
		out = append(out, awaitsRetry(p, &r.Waiting[i]))
	}
	if r.Capped {
		out = append(out, Awaited{Kind: AwaitCap, Name: p.Strategy.Cap, Message: "what runs may have in flight together is used up, or it is the turn of another one"})
	}
	return out
}

// timeoutsAwaited returns the timeouts of a stage and its groups that have begun.
func timeoutsAwaited(st *PlannedStage, run *StageRun) (out []Awaited) {
	if run.Clock.Deadline != 0 {
		out = append(out, Awaited{Kind: AwaitTimeout, Name: st.Name, Until: run.Clock.Deadline.Time()})
	}
	for i := range run.Groups {
		if gr := &run.Groups[i]; gr.Clock.Deadline != 0 && gr.Ended == 0 {
			out = append(out, Awaited{Kind: AwaitTimeout, Name: st.Name + "/" + st.Groups[i].Name, Until: gr.Clock.Deadline.Time()})
		}
	}
	return out
}

// awaited returns what an open gate waits for.
func (gs *gates) awaited(g *Gate) Awaited {
	if g.Type == Approval {
		req := gs.request(g)
		return Awaited{Kind: AwaitDecision, Name: req.Name, Until: g.Until.Time(), Message: missing(req)}
	}
	a := Awaited{Kind: AwaitTime, Name: gs.d.p.Stages[gs.d.r.Stage].Name, Until: g.Until.Time(), Message: "timed wait"}
	if gs.group != "" {
		a.Name += "/" + gs.group
	}
	if g.Type == ScheduledStart {
		a.Message = runstate.ScheduledStartMessage
	}
	return a
}

// awaitedChecks is what a gate of checks waits for.
func (gs *gates) awaitedChecks(g *Gate) (out []Awaited) {
	pg := gs.plannedOf(g)
	for i := range g.Checks {
		r := &g.Checks[i]
		if r.Phase == check.Successful && r.Next == 0 {
			continue
		}
		stage := gs.d.p.Stages[gs.d.r.Stage].Name
		a := Awaited{
			Kind: AwaitCheck, Name: r.Name, Until: g.Until.Time(),
			Message: fmt.Sprintf("%s: %s", where(g.When, stage, gs.group), r.Progress(&pg.Checks[i], gs.d.r.Now)),
		}
		if r.Phase == check.Inconclusive {
			then, skip := "another run measures it", "skip stage "+stage
			if s := &gs.d.p.Strategy; s.Profile == ClusterUpdate || s.Suspends() {
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

// isInconclusive reports whether one of the checks has ended as that: nothing but time, or a person, ends the wait for it.
func isInconclusive(checks []check.Run) bool {
	return slices.ContainsFunc(checks, func(r check.Run) bool { return r.Phase == check.Inconclusive })
}

// notAgain says what follows from a check that has ended as Inconclusive, when, and what a person can do.
func notAgain(follows string, expires time.Time, then, now string) string {
	return fmt.Sprintf("; it is not measured again: %s when it expires, at %s, and %s; to go on without it, %s", follows, expires.Format(time.RFC3339), then, now)
}

func missing(req approval.Request) string {
	var out string
	for _, q := range approval.Missing(req) {
		if out != "" {
			out += ", "
		}
		out += fmt.Sprintf("%d more", q.Count)
		if q.Group != "" {
			out += " of " + q.Group
		}
	}
	return out
}

// windowsAwaited names the groups of the current stage that have clusters which
// are outside their windows.
func windowsAwaited(p *Plan, r *Run) []Awaited {
	if r.Stage >= len(p.Stages) || r.IsBypassed() {
		return nil
	}
	st := &p.Stages[r.Stage]
	var out []Awaited
	for i := range r.Stages[r.Stage].Groups {
		n, first := 0, alarm{now: r.Now}
		for _, c := range r.Stages[r.Stage].Groups[i].Deferred {
			if c.Closed {
				n += c.Last - c.First + 1
				first.at(c.NotYet)
			}
		}
		if n == 0 {
			continue
		}
		a := Awaited{Kind: AwaitWindow, Name: st.Name, Until: first.first.Time(), Message: fmt.Sprintf("%d outside their maintenance windows", n)}
		if name := st.Groups[i].Name; name != "" {
			a.Name += "/" + name
		}
		out = append(out, a)
	}
	return out
}

func awaitsRetry(p *Plan, y *Retrying) Awaited {
	a := Awaited{Kind: AwaitTime, Name: p.Clusters[y.Pos].Name, Until: y.NotYet.Time(), Message: y.Message}
	if y.Closed {
		a.Kind = AwaitWindow
	}
	return a
}

func awaitsInFlight(p *Plan, r *Run, f *InFlight) Awaited {
	a := Awaited{Kind: AwaitObservation, Name: p.Clusters[f.Pos].Name, Message: f.Message}
	switch f.Phase {
	case Soaking, BackingOff:
		a.Kind, a.Until = AwaitTime, f.Until.Time()
	case Applying:
		if a.Message == "" {
			a.Message = "being applied"
		}
	case Settling:
		if a.Message == "" {
			a.Message = "applied; not yet proven healthy"
		}
	case Measuring:
		var measured []string
		for i := range f.Checks.Checks {
			if run := &f.Checks.Checks[i]; run.Phase != check.Successful {
				measured = append(measured, run.Progress(&p.Stages[r.Stage].ClusterChecks[i], r.Now))
			}
		}
		a.Kind, a.Until, a.Message = AwaitCheck, f.Checks.Until.Time(), "healthy, and measured: "+strings.Join(measured, "; ")
		if isInconclusive(f.Checks.Checks) {
			a.Message += notAgain("the cluster has failed", a.Until, "retry, or a run that catches up, measures it again", "skip the cluster")
		}
	}
	return a
}

// Explanation is the state of a cluster in a run, with the reason.
type Explanation struct {
	Run     string `json:"run"`
	Cluster string `json:"cluster"`
	Stage   string `json:"stage"`
	Group   string `json:"group,omitempty"`
	State   State  `json:"state"`
	Attempt int    `json:"attempt,omitempty"`
	// Reason is a sentence.
	Reason string `json:"reason"`
	// Waiting is what has to happen before the cluster moves on, where it is
	// not terminal.
	Waiting []Awaited `json:"waiting,omitempty"`
}

// Explain returns the state of the cluster in the run and what it waits for. It fails for a cluster that is
// not in the plan, and for a run that is not one of it, with the error of [Check].
func Explain(p *Plan, r *Run, cluster string) (Explanation, error) {
	if err := Check(p, r); err != nil {
		return Explanation{}, err
	}
	pos, ok := p.Position(cluster)
	if !ok {
		return Explanation{}, fmt.Errorf("run %s: cluster %s is not in the plan: %s", r.Name, cluster, p.Rollback.Absent(cluster))
	}
	stage, group := p.StageOf(pos)
	e := Explanation{
		Run: r.Name, Cluster: cluster, Stage: p.Stages[stage].Name, Group: p.Stages[stage].Groups[group].Name,
	}
	book := runstate.NewLookup(p, r)
	e.State = book.State(pos)
	switch e.State {
	case Skipped, Failed:
		x := runstate.UnsuccessfulAt(r.Unsuccessful, pos)
		if e.Reason = x.Reason; e.State == Failed {
			e.Attempt = x.Attempts
		}
		if e.Reason == "" {
			e.Reason = "the reason is in the run's journal, in the event of the cluster"
		}
		if r.IsTouched(pos, e.State) {
			e.Reason += r.RollbackRequest.Sentence()
		}
	case Completed:
		e.Reason = "the cluster has been proven to be at the plan's revision"
		if p.Stages[stage].Remove {
			e.Reason = "the cluster has been proven to be clean"
		}
		e.Reason += p.Rollback.AsBefore() + r.RollbackRequest.Sentence()
	case Running:
		f := book.InFlight(pos)
		e.Attempt, e.Waiting = f.Attempt, []Awaited{awaitsInFlight(p, r, f)}
		e.Reason = "in flight"
		if r.State == Stopped {
			e.Reason, e.Waiting = "in flight when the run was stopped", Waiting(p, r)
		}
	case Pending:
		if out := r.DeferredAt(p, pos); out != nil {
			e.Reason = cmp.Or(out.Reason, "outside its maintenance window")
			next := alarm{now: r.Now}
			next.at(out.NotYet)
			e.Waiting = []Awaited{{Kind: AwaitWindow, Name: cluster, Until: next.first.Time(), Message: e.Reason}}
			break
		}
		y := book.Retrying(pos)
		e.Attempt, e.Reason = y.Attempt, "to be started again: "+y.Message
		e.Waiting = []Awaited{awaitsRetry(p, y)}
	default:
		e.Reason, e.Waiting = notStarted(p, r, pos), Waiting(p, r)
	}
	return e, nil
}

// notStarted says why the cluster at pos has not started.
func notStarted(p *Plan, r *Run, pos int) string {
	stage, group := p.StageOf(pos)
	switch {
	case r.IsEnded():
		return "the run ended before the cluster's turn: it is " + string(r.State)
	case r.State != Running:
		return "the run is " + string(r.State)
	case stage > r.Stage:
		return "stage " + p.Stages[r.Stage].Name + " is not done"
	case r.Stages[stage].Started == 0:
		return "the stage waits at its gates"
	case !runstate.IsNext(&p.Stages[stage].Groups[group], &r.Stages[stage]):
		return "the group waits for those that it depends on"
	case !r.Stages[stage].Groups[group].Admits(&p.Stages[stage].Groups[group], &r.Stages[stage]):
		return "the group waits at its gates"
	}
	if why := held(&r.Stages[stage]); why != "" {
		return "no cluster of the stage starts: " + why
	}
	if d := reading(p, r).load().full(p.Clusters[pos].Cell); d != nil {
		return fmt.Sprintf("its failure domain is full: %d of %d clusters of %s may be in flight, and are", d.MaxConcurrency, d.Clusters, d)
	}
	if r.Capped {
		return "cap " + p.Strategy.Cap + ", which several runs share, is used up"
	}
	return "the clusters in flight use up the stage's concurrency"
}
