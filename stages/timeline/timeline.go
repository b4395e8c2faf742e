package timeline

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// DefaultLanes is the default limit of lanes in a picture.
const DefaultLanes = 60

// maxLanes bounds Options.Lanes.
const maxLanes = 200

// Options are the parts of a picture beside the past events.
type Options struct {
	// Now is the moment of the picture. Everything after it is expected, and the picture of an
	// unfinished run reaches at least to Now. Zero means the time of the last event, and no expected
	// part. Now is ignored if the run has ended; if an event is later than Now, the time of that event
	// replaces it.
	Now time.Time
	// Expected are future events from a forecast. Events before Now, and events about clusters that
	// have ended, are left out, so a forecast may be slightly older than the events.
	Expected []simulate.Event
	// Title is the first line of the picture; empty names the run and its placement. Note is below
	// it, for example the assumptions of a forecast, or the reason why it has no end.
	Title, Note string
	// Lanes is the maximum number of clusters for which each cluster has a lane; if there are more,
	// each group has a lane. 0 means [DefaultLanes]; at most 200.
	Lanes int
}

// Timeline is the picture of a run.
type Timeline struct {
	// Title and Note are copied from the Options.
	Title, Note string
	// Run is the name of the run, empty if it does not exist. Placement is the name of its
	// placement.
	Run, Placement string
	// RollsBack is the run that this run rolls back, if any.
	RollsBack string
	// Start and End are the first and the last moment of the picture; End is not before Start. Ends
	// is the actual or expected end of the run, zero if unknown.
	Start, End, Ends time.Time
	// Now separates the past from the expected part; zero if there is no expected part.
	Now time.Time
	// State is the run's state at the end of the picture.
	State stages.State
	// Back is the state of the rollback run at the end of the picture, and BackEnds its end; empty
	// if the picture has none.
	Back     stages.State
	BackEnds time.Time
	// Clusters is the number of clusters. Completed, Failed and Skipped are the numbers of clusters
	// that have ended so, by Now if it is set.
	Clusters, Completed, Failed, Skipped int
	// Segments belong to the run as a whole: queued, stopping, stopped. Marks are its events.
	Segments []Segment
	Marks    []Mark
	Stages   []Stage
	// simulated reports whether the whole picture is a simulation.
	simulated bool
}

// Stage is a stage of the run, or of its rollback run.
type Stage struct {
	Name string
	// Back reports whether it is a stage of the rollback run, in a simulation.
	Back bool
	// Start is when its clusters could start, End when it was done; zero if that did not happen.
	Start, End time.Time
	// Gates are the gates before and after the stage.
	Gates  []Segment
	Groups []Group
}

// Group is a group of a stage. A stage without groups has one group without a name. If there are
// more groups than lanes, one group represents all groups of a stage, and Merged is their number.
type Group struct {
	Name     string
	Merged   int
	Clusters int
	// Gates are the gates of the group, and segments about clusters without names, for example the
	// number of clusters outside their windows.
	Gates []Segment
	// Lanes are the lanes of the clusters. If there are too many, Load has the number of clusters in
	// each phase instead.
	Lanes []Lane
	Load  []Load
}

// Lane is the history of a cluster.
type Lane struct {
	Cluster string
	// Segments ascend and do not overlap.
	Segments []Segment
}

// Kind is the meaning of a segment.
type Kind string

// The kinds of segment of a cluster.
const (
	Queued     Kind = "Queued"     // waits for its turn; a run waits for another one
	Closed     Kind = "Closed"     // outside its maintenance window
	Yielded    Kind = "Yielded"    // it was unreachable, and released its slot
	Applying   Kind = "Applying"   // the update is being applied
	Settling   Kind = "Settling"   // applied; not yet healthy
	Soaking    Kind = "Soaking"    // healthy, for the strategy's minimum time
	Measuring  Kind = "Measuring"  // healthy, and measured by checks; Message has the last result
	BackingOff Kind = "BackingOff" // an attempt failed; the next one begins at the end
	Completed  Kind = "Completed"  // an instant: From is To
	Failed     Kind = "Failed"     // an instant
	Skipped    Kind = "Skipped"    // an instant
)

// The kinds of segment of stages, groups and the run.
const (
	Wait      Kind = "Wait"      // a timed wait
	Scheduled Kind = "Scheduled" // a scheduled start
	Approval  Kind = "Approval"  // a request; By has the approvers
	Rejected  Kind = "Rejected"  // a rejected request; By has the rejecter
	Expired   Kind = "Expired"   // a request without an answer in time
	Stopping  Kind = "Stopping"
	Stopped   Kind = "Stopped"
	// Checked is a check before or after a stage or a group, CheckFailed a check that was not
	// Successful. HeldByCheck is a stage that starts no cluster because of a check. Message is the
	// result.
	Checked     Kind = "Checked"
	CheckFailed Kind = "CheckFailed"
	HeldByCheck Kind = "Held"
)

// clusterKinds are the kinds of clusters, in stacking order.
var clusterKinds = [...]Kind{Completed, Failed, Skipped, Measuring, Soaking, Settling, Applying, BackingOff, Yielded, Closed, Queued} //nolint:gochecknoglobals // a constant table

// Segment is a period in which a cluster, a gate or the run was in one state.
type Segment struct {
	Kind     Kind
	From, To time.Time
	// Open reports whether the segment had not ended at the end of the picture. Expected reports
	// whether the segment is after Timeline.Now; a period on both sides of Now is split into two
	// segments.
	Open, Expected bool
	// Attempt counts the attempts at a cluster or the requests of a gate, from 1; otherwise 0.
	Attempt int
	// Count is the number of clusters, if the segment is about several.
	Count int
	// By are the names of the identities that decided, and Message has further details.
	By      []string
	Message string
}

// Mark is an event of the run, or of its rollback run.
type Mark struct {
	At             time.Time
	Type           stages.EventType
	Expected, Back bool
	By, Message    string
}

// Load has the number of clusters of a group in each phase, from a moment until the next Load.
type Load struct {
	At     time.Time
	counts [len(clusterKinds)]int
}

// Count returns the number of clusters in a phase.
func (l *Load) Count(k Kind) int {
	if i := kindIndex(k); i >= 0 {
		return l.counts[i]
	}
	return 0
}

// inFlight counts the clusters that hold a slot.
func (l *Load) inFlight() (n int) {
	for _, k := range []Kind{Measuring, Soaking, Settling, Applying, BackingOff} {
		n += l.Count(k)
	}
	return n
}

func kindIndex(k Kind) int {
	for i := range clusterKinds {
		if clusterKinds[i] == k {
			return i
		}
	}
	return -1
}

// New returns the picture of a run of the plan. past are all of its events; events that do not
// match the plan are left out. The plan and the events are not changed.
func New(p *stages.Plan, past []stages.Event, o Options) *Timeline {
	events := make([]simulate.Event, len(past), len(past)+len(o.Expected))
	for i := range past {
		events[i].Event = past[i]
	}
	return record(p, events, o)
}

// Simulated returns the picture of a simulation of the plan, without an expected part. The
// rollback run is in the same picture: its stages come last.
func Simulated(p *stages.Plan, events []simulate.Event, o Options) *Timeline {
	o.Now, o.Expected = time.Time{}, nil
	t := record(p, events, o)
	t.Run, t.simulated = "", true
	return t
}
