package timeline

import (
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// recorder turns events into segments.
type recorder struct {
	t    *Timeline
	runs []*planned
	// at is the time of the current event. Time never decreases.
	at time.Time
	// expected reports whether the current event is in the future, and ended whether the run has
	// ended.
	expected, ended bool
	// open has the open segments of the run, its stages and groups, by their subject.
	open map[gateKey]*Segment
	// measured is the progress of the checks of active stages.
	measured map[gateKey]measured
}

// planned is a plan with the segments of its clusters, by position.
type planned struct {
	plan *stages.Plan
	// first is the index of its first stage in the picture.
	first  int
	tracks []track
}

// of returns the clusters of a stage.
func (x *planned) of(stage int) []track {
	st := &x.plan.Stages[stage]
	return x.tracks[st.Groups[0].First:st.End()]
}

// track is the state and the history of a cluster.
type track struct {
	segments []Segment
	// now is the current segment; its Kind is empty if there is none.
	now Segment
	// over reports whether the cluster has ended by a past event.
	over bool
}

// gateKey is the subject of an open segment: stage is -1 for the run.
type gateKey struct {
	stage, group int
	item         string
}

func record(p *stages.Plan, events []simulate.Event, o Options) *Timeline {
	r := &recorder{t: &Timeline{Title: o.Title, Note: o.Note, Placement: p.Placement, State: stages.NotStarted, Clusters: p.Len()}, open: map[gateKey]*Segment{}, measured: map[gateKey]measured{}}
	if p.Rollback != nil {
		r.t.RollsBack = p.Rollback.Run
	}
	r.add(p)
	for i := range events {
		r.event(&events[i])
	}
	if !r.ended && !o.Now.IsZero() {
		r.expect(o)
	}
	r.finish(o)
	return r.t
}

// expect records the events after now.
func (r *recorder) expect(o Options) {
	now := instant(o.Now)
	if r.at.After(now) {
		now = r.at
	}
	r.t.Now, r.at, r.expected = now, now, true
	if r.t.Start.IsZero() {
		r.t.Start = now
	}
	for i := range o.Expected {
		if !o.Expected[i].Time.Before(now) {
			r.event(&o.Expected[i])
		}
	}
}

// add adds a plan, and returns it.
func (r *recorder) add(p *stages.Plan) *planned {
	x := &planned{plan: p, first: len(r.t.Stages), tracks: make([]track, p.Len())}
	for i := range p.Stages {
		st := Stage{Name: p.Stages[i].Name, Back: len(r.runs) > 0}
		for j := range p.Stages[i].Groups {
			g := &p.Stages[i].Groups[j]
			st.Groups = append(st.Groups, Group{Name: g.Name, Clusters: g.Len})
		}
		r.t.Stages = append(r.t.Stages, st)
	}
	r.runs = append(r.runs, x)
	return x
}

// of returns the plan of an event.
func (r *recorder) of(e *simulate.Event) *planned {
	if e.Back == nil {
		return r.runs[0]
	}
	for _, x := range r.runs[1:] {
		if x.plan == e.Back {
			return x
		}
	}
	return r.add(e.Back)
}

// event records an event.
func (r *recorder) event(e *simulate.Event) {
	if e.Type == stages.RunTaken || e.Type == stages.RunCreated {
		return
	}
	if at := instant(e.Time); r.at.Before(at) {
		r.at = at
	}
	if r.t.Start.IsZero() {
		r.t.Start = r.at
	}
	if r.t.Run == "" && !r.expected {
		r.t.Run = e.Run
	}
	x := r.of(e)
	if e.Cluster != "" {
		if pos, ok := x.plan.Position(e.Cluster); ok {
			r.cluster(x, pos, &e.Event)
		}
		return
	}
	if i := x.plan.StageIndex(e.Stage); e.Stage != "" && i >= 0 {
		group := slices.IndexFunc(x.plan.Stages[i].Groups, func(g stages.PlannedGroup) bool { return g.Name == e.Group })
		r.stage(x, i, group, &e.Event)
		return
	}
	r.run(x, &e.Event)
}

// run records an event of the run as a whole.
func (r *recorder) run(x *planned, e *stages.Event) {
	state, end := map[stages.EventType]stages.State{
		stages.RunQueued: stages.Pending, stages.RunStarted: stages.Running, stages.RunResumed: stages.Running,
		stages.RunStopping: stages.Stopping, stages.RunStopped: stages.Stopped, stages.RunCompleted: stages.Completed,
		stages.RunFailed: stages.Failed, stages.RunAborted: stages.Aborted, stages.RunSuperseded: stages.Superseded,
	}[e.Type], false
	own := gateKey{stage: -1}
	switch e.Type {
	case stages.RunQueued:
		r.begin(own, Segment{Kind: Queued, Message: "waits for run " + e.Message})
	case stages.RunStarted:
		r.end(own)
	case stages.RunResumed, stages.RunRetried:
		r.end(own)
		for i := range x.tracks {
			t := &x.tracks[i]
			t.over = t.over && t.segments[len(t.segments)-1].Kind == Completed
		}
	case stages.RunStopping:
		r.begin(own, Segment{Kind: Stopping, By: names(e.By), Message: e.Message})
	case stages.RunStopped:
		r.begin(own, Segment{Kind: Stopped, By: names(e.By), Message: e.Message})
	case stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded:
		end = true
	case stages.RollbackRequested, stages.RollbackRefused, stages.RunClosing, stages.WindowsBypassed, stages.CommandRefused:
	default:
		return
	}
	message := e.Message
	if e.Command != "" {
		message = strings.TrimSuffix(e.Command+": "+message, ": ")
	}
	back := x != r.runs[0]
	r.t.Marks = append(r.t.Marks, Mark{At: r.at, Type: e.Type, Expected: r.expected, Back: back, By: e.By, Message: message})
	now, ends := &r.t.State, &r.t.Ends
	if back {
		now, ends = &r.t.Back, &r.t.BackEnds
	}
	if state != "" {
		*now, *ends, r.ended = state, time.Time{}, end
	}
	if end {
		*ends = r.at
		r.closeAll(false)
	}
}

// stage records an event of a stage or a group; group is -1 if there is none with the name.
func (r *recorder) stage(x *planned, i, group int, e *stages.Event) {
	st, key := &r.t.Stages[x.first+i], gateKey{stage: x.first + i, group: -1, item: e.Message}
	if e.Group != "" {
		key.group = group
	}
	switch e.Type {
	case stages.StageStarted:
		st.Start = r.at
		for k := range x.of(i) {
			if t := &x.of(i)[k]; t.now.Kind == "" && !t.over {
				r.becomes(t, Segment{Kind: Queued})
			}
		}
	case stages.StageCompleted, stages.StageSkipped:
		st.End = r.at
		r.endChecks(x, i)
		for k := range x.of(i) {
			r.becomes(&x.of(i)[k], Segment{})
		}
	case stages.WaitStarted:
		kind := Wait
		if e.Message != "" {
			kind = Scheduled
		}
		r.begin(key, Segment{Kind: kind, Message: e.Message})
	case stages.WaitEnded:
		r.decided(key, e.By, "")
		r.end(key)
	case stages.ApprovalRequested, stages.ApprovalExpired, stages.ApprovalGiven, stages.ApprovalEarly, stages.ApprovalAccepted, stages.ApprovalRejected:
		key.item = "request " + e.Request
		r.approval(key, e)
	case stages.CheckMeasured, stages.CheckEnded:
		r.check(x, i, key, e)
	case stages.ClusterPending:
		key.item = "windows"
		r.begin(key, Segment{Kind: Closed, Count: e.Count, Message: e.Message})
		r.until(key, e.Until)
	case stages.ClusterSkipped:
		r.skipMany(x, i, group, e)
	default:
	}
}

// approval records an event of a request.
func (r *recorder) approval(key gateKey, e *stages.Event) {
	switch e.Type {
	case stages.ApprovalRequested:
		r.begin(key, Segment{Kind: Approval, Attempt: e.Attempt})
	case stages.ApprovalExpired:
		r.ends(key, Expired)
	case stages.ApprovalAccepted:
		r.decided(key, e.By, e.Message)
		r.end(key)
	case stages.ApprovalRejected:
		r.decided(key, e.By, e.Message)
		r.ends(key, Rejected)
	default:
		r.decided(key, e.By, e.Message)
	}
}

// skipMany records skipped clusters that the event does not name: all that have not started, if
// their number matches.
func (r *recorder) skipMany(x *planned, i, group int, e *stages.Event) {
	if group < 0 {
		return
	}
	g := &x.plan.Stages[i].Groups[group]
	var left []int
	for pos := g.First; pos < g.First+g.Len; pos++ {
		if k := x.tracks[pos].now.Kind; !x.tracks[pos].over && (k == "" || k == Queued || k == Closed) {
			left = append(left, pos)
		}
	}
	if len(left) == e.Count {
		for _, pos := range left {
			r.ending(&x.tracks[pos], Segment{Kind: Skipped, Message: e.Message})
		}
		return
	}
	key := gateKey{stage: x.first + i, group: group, item: "skip"}
	r.begin(key, Segment{Kind: Skipped, Count: e.Count, Message: e.Message})
	r.end(key)
}

// cluster records an event of a cluster.
func (r *recorder) cluster(x *planned, pos int, e *stages.Event) {
	t := &x.tracks[pos]
	if t.over && r.expected {
		return
	}
	inFlight := t.now.Kind != "" && t.now.Kind != Queued && t.now.Kind != Closed
	attempt := max(t.now.Attempt, 1)
	if e.Attempt > 0 {
		attempt = e.Attempt
	}
	r.backedOff(t)
	switch e.Type {
	case stages.ClusterStarted:
		if !inFlight || !r.expected {
			t.over = false
			r.becomes(t, Segment{Kind: Applying, Attempt: attempt})
		}
	case stages.ClusterPending:
		kind := Closed
		if inFlight {
			kind = Yielded
		}
		r.becomes(t, Segment{Kind: kind, Attempt: attempt, Message: e.Message})
	case stages.ClusterApplied:
		r.becomes(t, Segment{Kind: Settling, Attempt: attempt})
	case stages.ClusterUnhealthy:
		r.becomes(t, Segment{Kind: Settling, Attempt: attempt, Message: e.Message})
	case stages.CheckMeasured, stages.CheckEnded:
		r.measuring(x, pos, attempt, e)
	case stages.ClusterRetrying:
		r.becomes(t, Segment{Kind: BackingOff, Attempt: attempt, Message: e.Message})
		t.now.To = instant(e.Until)
	case stages.ClusterCompleted, stages.ClusterRemoved:
		r.soaked(t, x.plan.Strategy.MinHealthy.Duration, e)
		done := Segment{Kind: Completed, Attempt: attempt}
		if e.Unchanged {
			done.Message = "had the revision already"
		}
		r.ending(t, done)
	case stages.ClusterFailed:
		r.ending(t, Segment{Kind: Failed, Attempt: attempt, Message: e.Message})
	case stages.ClusterSkipped:
		r.ending(t, Segment{Kind: Skipped, Message: e.Message})
	default:
	}
}

// backedOff begins the next attempt after a backoff that is over, because no event reports it.
func (r *recorder) backedOff(t *track) {
	if until := t.now.To; t.now.Kind == BackingOff && !until.IsZero() && until.Before(r.at) && t.now.From.Before(until) {
		now := r.at
		r.at = until
		r.becomes(t, Segment{Kind: Applying, Attempt: t.now.Attempt + 1})
		r.at = now
	}
}

// soaked splits the time since a cluster was applied: at its end the cluster was healthy for the
// required time.
func (r *recorder) soaked(t *track, soak time.Duration, e *stages.Event) {
	if soak <= 0 || e.Unchanged || t.now.Kind != Settling {
		return
	}
	from := r.at.Add(-soak)
	if from.Before(t.now.From) {
		from = t.now.From
	}
	now := r.at
	r.at = from
	r.becomes(t, Segment{Kind: Soaking, Attempt: t.now.Attempt})
	r.at = now
}

// becomes ends the current segment of a cluster and begins the next one, which may be empty.
func (r *recorder) becomes(t *track, next Segment) {
	if t.now.Kind != "" && t.now.From.Before(r.at) {
		t.now.To = r.at
		t.segments = r.split(t.segments, t.now)
	}
	next.From, next.Expected = r.at, r.expected
	t.now = next
}

// ending ends the lane of a cluster; a later event may continue it.
func (r *recorder) ending(t *track, end Segment) {
	r.becomes(t, Segment{})
	end.From, end.To, end.Expected = r.at, r.at, r.expected
	t.segments = append(t.segments, end)
	t.over = true
}

// split appends a segment, in two parts if it contains now.
func (r *recorder) split(all []Segment, s Segment) []Segment {
	now := r.t.Now
	s.Expected = !now.IsZero() && !s.From.Before(now)
	if now.IsZero() || s.Expected || !now.Before(s.To) {
		return append(all, s)
	}
	before, after := s, s
	before.To, before.Open, after.From, after.Expected = now, false, now, true
	return append(all, before, after)
}

// begin opens a segment of the run, a stage or a group, and ends the one before it.
func (r *recorder) begin(key gateKey, s Segment) {
	r.end(key)
	s.From = r.at
	r.open[key] = &s
}

// until sets the end of an open segment, unless an event ends it before.
func (r *recorder) until(key gateKey, at time.Time) {
	if s := r.open[key]; s != nil && !at.IsZero() {
		s.To = instant(at)
	}
}

// decided notes the identities that decided on an open segment. It ignores expected decisions,
// because they are assumptions.
func (r *recorder) decided(key gateKey, by, message string) {
	s := r.open[key]
	if s == nil || r.expected {
		return
	}
	if by != "" && !slices.Contains(s.By, by) {
		s.By = append(s.By, by)
	}
	if message != "" {
		s.Message = message
	}
}

// ends ends an open segment and changes its kind.
func (r *recorder) ends(key gateKey, kind Kind) {
	if s := r.open[key]; s != nil {
		s.Kind = kind
	}
	r.end(key)
}

// end ends an open segment.
func (r *recorder) end(key gateKey) {
	s := r.open[key]
	if s == nil {
		return
	}
	delete(r.open, key)
	if s.From.After(r.at) || s.Kind == HeldByCheck && s.From.Equal(r.at) {
		return // it would have begun later
	}
	if s.To.IsZero() || s.To.After(r.at) {
		s.To = r.at
	}
	if s.To.Before(s.From) {
		s.To = s.From
	}
	to := &r.t.Segments
	if key.stage < 0 && !s.From.Before(s.To) {
		return
	}
	if key.stage >= 0 {
		to = &r.t.Stages[key.stage].Gates
		if key.group >= 0 {
			to = &r.t.Stages[key.stage].Groups[key.group].Gates
		}
	}
	*to = r.split(*to, *s)
}

// closeAll closes all open segments, and marks those that continue.
func (r *recorder) closeAll(goesOn bool) {
	keys := make([]gateKey, 0, len(r.open))
	for key, s := range r.open {
		s.Open = goesOn && (s.To.IsZero() || s.To.After(r.at))
		keys = append(keys, key)
	}
	for _, key := range keys {
		r.end(key)
	}
	for _, x := range r.runs {
		for i := range x.tracks {
			t := &x.tracks[i]
			r.backedOff(t)
			t.now.Open = goesOn
			r.becomes(t, Segment{})
		}
	}
}

// names returns the names that are not empty.
func names(all ...string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// The range of moments that can be drawn.
const (
	firstInstant = 0
	lastInstant  = 253_370_764_800_000 // the year 9999
)

// instant returns a moment to the millisecond, within the range that can be drawn.
func instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	if t.Year() < 1970 {
		return time.UnixMilli(firstInstant).UTC()
	}
	if t.Year() > 9998 {
		return time.UnixMilli(lastInstant).UTC()
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}
