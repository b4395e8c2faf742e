package timeline

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// DefaultLanes is how many lanes a picture has at most where [Options] do not say it.
const DefaultLanes = 60

// maxLanes bounds Options.Lanes.
const maxLanes = 200

// Options say what is drawn besides what has happened.
type Options struct {
	// Now is the moment of the picture. What is after it is expected, and a run that has not ended reaches at least
	// to here. Zero is the time of the last event, and so there is no expectation. It means nothing for a run that has
	// ended, and an event that is later than Now moves it.
	Now time.Time
	// Expected is what is to come, the Events of a forecast. Those before Now, and those about clusters that have
	// ended meanwhile, are left out, so that a forecast may be a little older than the events.
	Expected []simulate.Event
	// Title is the first line of the picture; empty names the run and its placement. Note is said beneath it, such as
	// what a forecast assumes, or why it has no end.
	Title, Note string
	// Lanes is how many clusters have a lane each; where there are more, groups have. 0 means
	// [DefaultLanes], and 200 is the most.
	Lanes int
}

// Timeline is the picture of a run.
type Timeline struct {
	// Title and Note are those of the Options.
	Title, Note string
	// Run is the name of the run, empty where it does not exist, and Placement that of its placement.
	Run, Placement string
	// RollsBack is the run that it rolls back, if it does.
	RollsBack string
	// Start and End are between what moments the picture is; End is not before Start. Ends is when the run ends, or is
	// expected to, zero where that is not known.
	Start, End, Ends time.Time
	// Now separates what has happened from what is expected; zero where all of it happened.
	Now time.Time
	// State is what the run comes to by the end of the picture.
	State stages.State
	// Back is what the run that rolls this one back comes to, and BackEnds when it ends; empty where there is none in
	// the picture.
	Back     stages.State
	BackEnds time.Time
	// Clusters is how many there are, Completed, Failed and Skipped how many of them have ended so,
	// by Now where that is set.
	Clusters, Completed, Failed, Skipped int
	// Segments are those of the run as a whole: queued, stopping, stopped. Marks are what happened to it.
	Segments []Segment
	Marks    []Mark
	Stages   []Stage
	// simulated reports whether nothing of the picture has happened.
	simulated bool
}

// Stage is a stage of the run, or of the one that rolls it back.
type Stage struct {
	Name string
	// Back reports whether it is a stage of the run that rolls this one back, in a simulation.
	Back bool
	// Start is when its clusters could start, End when it was done; zero where that did not happen.
	Start, End time.Time
	// Gates are those before and after the stage.
	Gates  []Segment
	Groups []Group
}

// Group is a group of a stage. A stage without groups has one without a name; where there are more groups than lanes,
// one stands for all, and Merged is how many they are.
type Group struct {
	Name     string
	Merged   int
	Clusters int
	// Gates are those of the group, and what is known of its clusters without their names, such as how many are
	// outside their windows.
	Gates []Segment
	// Lanes are those of the clusters; where there are too many of them, Load is how many are in which phase instead.
	Lanes []Lane
	Load  []Load
}

// Lane is what a cluster was doing.
type Lane struct {
	Cluster string
	// Segments ascend and do not overlap.
	Segments []Segment
}

// Kind is what a segment shows.
type Kind string

// The kinds of segment of a cluster.
const (
	Queued     Kind = "Queued"     // its stage goes on, and its turn has not come; of a run, it waits for another one
	Closed     Kind = "Closed"     // outside its maintenance window
	Yielded    Kind = "Yielded"    // it could not be reached, and gave its slot away
	Applying   Kind = "Applying"   // the update is carried out
	Settling   Kind = "Settling"   // applied; not yet healthy
	Soaking    Kind = "Soaking"    // healthy, for as long as the strategy asks
	Measuring  Kind = "Measuring"  // healthy, and measured by the checks of clusters, once there was a measurement; Message is what is wrong
	BackingOff Kind = "BackingOff" // an attempt failed; the next one begins at the end
	Completed  Kind = "Completed"  // an instant: From is To
	Failed     Kind = "Failed"     // an instant
	Skipped    Kind = "Skipped"    // an instant
)

// The kinds of segment of stages, groups and the run.
const (
	Wait      Kind = "Wait"      // a timed wait
	Scheduled Kind = "Scheduled" // a scheduled start
	Approval  Kind = "Approval"  // a request; By is who approved
	Rejected  Kind = "Rejected"  // a request that was rejected; By is who did
	Expired   Kind = "Expired"   // a request without an answer in time
	Stopping  Kind = "Stopping"
	Stopped   Kind = "Stopped"
	// Checked is a check before or after a stage or a group, CheckFailed one that came to something else than Successful.
	// Held is a stage of which no cluster starts, because of a check. Message is what was measured.
	Checked     Kind = "Checked"
	CheckFailed Kind = "CheckFailed"
	Held        Kind = "Held"
)

// clusterKinds are those that a cluster can be in, in the order in which they are stacked.
var clusterKinds = [...]Kind{Completed, Failed, Skipped, Measuring, Soaking, Settling, Applying, BackingOff, Yielded, Closed, Queued} //nolint:gochecknoglobals // a table that nothing writes

// Segment is something that lasts.
type Segment struct {
	Kind     Kind
	From, To time.Time
	// Open reports whether it had not ended at the end of the picture. Expected reports whether it is after
	// Timeline.Now; what is on both sides of that is two segments.
	Open, Expected bool
	// Attempt counts the attempts at a cluster or the requests of a gate, from 1; 0 where that means nothing.
	Attempt int
	// Count is how many clusters it is about, where it is not about one.
	Count int
	// By are the names of those who decided, and Message is what is known besides.
	By      []string
	Message string
}

// Mark is something that happened to the run, or to the one that rolls it back.
type Mark struct {
	At             time.Time
	Type           stages.EventType
	Expected, Back bool
	By, Message    string
}

// Load is how many clusters of a group are in which phase, from a moment on until the next one.
type Load struct {
	At     time.Time
	counts [len(clusterKinds)]int
}

// Count returns how many clusters are in a phase.
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

// New returns the picture of a run of the plan. past are its events from the first one on; those that do not fit the plan
// are left out. The plan and the events are not changed.
func New(p *stages.Plan, past []stages.Event, o Options) *Timeline {
	events := make([]simulate.Event, len(past), len(past)+len(o.Expected))
	for i := range past {
		events[i].Event = past[i]
	}
	return record(p, events, o)
}

// Simulated returns the picture of a simulation of the plan as if all of it had happened. The run that rolls the first
// one back is in the same picture: its stages come last.
func Simulated(p *stages.Plan, events []simulate.Event, o Options) *Timeline {
	o.Now, o.Expected = time.Time{}, nil
	t := record(p, events, o)
	t.Run, t.simulated = "", true
	return t
}
