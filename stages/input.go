package stages

import (
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
)

// Input is what is new since the last step. A cluster without an observation
// is unknown, not healthy.
type Input struct {
	// Now is the time. A time before one that the run has seen counts as that.
	Now time.Time
	// Observations are taken in order; a later one of a cluster wins.
	Observations []Observation
	// Commands are taken in order, each once by its ID.
	Commands []Command
	// Answers are those that authorities give to open requests and that hold at a
	// point in time only. They are taken together, after the commands, and count in
	// this step or not at all.
	Answers []Answer
	// Measured are answers to the questions of actions. One that is not the next of its check changes nothing.
	Measured []check.Measured
	// Gone names the clusters that left the inventory, or that are another
	// cluster under the same name.
	Gone []string
	// Unwatched reports whether the clusters were not watched since the last step, as
	// after a restart: one that was soaking is not done before it is proven
	// healthy again.
	Unwatched bool
	// Blocked names the active run of the placement while that is another one:
	// a run that has not started waits for it.
	Blocked string
	// Calendar says when clusters may be started; nil means at any time. Starting
	// is all that it is asked for: what is in flight goes on.
	Calendar Calendar
	// Slots is how many clusters the run may have in flight by the Cap of its strategy;
	// it counts only where that names one. What is in flight already goes on where it
	// is less.
	Slots int
	// NewCalendar reports whether Calendar says something else than at the last step.
	NewCalendar bool
}

// Calendar returns the maintenance windows and freezes of the clusters of a plan. It is a value like the rest
// of an [Input]: the same arguments give the same answer, at once, and it may be called concurrently.
type Calendar interface {
	// Window returns the window that is in force for the cluster at a position of
	// the plan at a moment.
	Window(pos int, at time.Time) Window
}

// Window is a time in which a cluster may be started, or one in which it may
// not.
type Window struct {
	// Limited reports whether windows concern the cluster, or that a freeze is in force.
	Limited bool
	// Open reports whether it may be started now; it is true where not Limited.
	Open bool
	// Until is when Open changes next; zero when it does not.
	Until time.Time
	// Reason says why it is not open, for example which freeze is in force.
	Reason string
}

// Observation is the state of a cluster as it was read during an attempt.
type Observation struct {
	Cluster string
	// Attempt is the attempt during which it was taken; one of another attempt
	// is ignored.
	Attempt int
	// Sent reports whether the member may have been changed by this attempt or, as
	// the [Action] says, by one before it.
	Sent bool
	// Applied reports whether everything of the attempt has been carried out.
	Applied bool
	// Unchanged reports whether nothing had to be carried out.
	Unchanged bool
	// Revision is the digest that the cluster proves to have; in a removal,
	// empty once everything is gone.
	Revision string
	// Current reports whether what the cluster reports about itself is at least as
	// new as what was applied.
	Current bool
	Healthy bool
	// Unreachable reports whether the cluster could not be asked.
	Unreachable bool
	// Failed reports whether the attempt failed, for the reason in Message;
	// Permanent that trying again soon will not help.
	Failed, Permanent bool
	// Skipped reports whether there is nothing to be done for the cluster, and that
	// nothing was: it is skipped, for the reason in Message.
	Skipped bool
	// Released names objects that were given up since the last observation instead of
	// deleted, and says why: see [ObjectsReleased]. It is for people.
	Released string
	// Altered names objects that were applied without a part of them, and that part: see [ObjectsAltered]. It is for people.
	Altered string
	// Message says what failed or what is not healthy.
	Message string
}

// Verb is what a [Command] asks for.
type Verb string

// The verbs.
const (
	Start     Verb = "Start" // also resumes, and starts a failed ClusterUpdate run again
	Stop      Verb = "Stop"
	Abort     Verb = "Abort"
	Skip      Verb = "Skip"
	Decide    Verb = "Decide"    // an approval or a rejection
	Supersede Verb = "Supersede" // make way for the run in Message
	// Retry takes a run that is Running, Pending, Stopped or Failed on, and lines
	// up again what has failed or was skipped in its current stage, as Only says.
	Retry Verb = "Retry"
	// RequestRollback ends a run that has started as Failed, and has what it brought taken
	// back: its strategy's Rollback says how. Name is that of the run which does, or
	// empty.
	RequestRollback Verb = "TakeBack"
	// CompleteGate ends a ScheduledStart, or the TimedWait of a pause, early: that of
	// the stage or of the group that Name names. A group that several stages have, or that is called like a
	// stage, is named <stage>/<group>.
	CompleteGate Verb = "CompleteGate"
	// BypassWindows lets clusters start outside their windows until Until. It needs a
	// Message, the reason; an Until that has passed ends it.
	BypassWindows Verb = "Bypass"
)

// Only says what a [Retry] is about.
type Only string

// What a Retry can be about; empty means both.
const (
	OnlyFailed  Only = "Failed"
	OnlySkipped Only = "Skipped"
)

// SkipScope is what a Skip command is about.
type SkipScope string

// The scopes of a skip.
const (
	SkipCluster   SkipScope = "Member"
	SkipGroup     SkipScope = "Group"
	SkipStage     SkipScope = "Stage"
	SkipAfterWait SkipScope = "AfterStageWait"
)

// Command is what an operator asks of a run.
type Command struct {
	// ID makes the command idempotent.
	ID      string            `json:"id"`
	Verb    Verb              `json:"verb"`
	By      approval.Identity `json:"by,omitzero"`
	At      time.Time         `json:"at"`
	Message string            `json:"message,omitempty"`
	// Scope and Name are the target of a Skip. A group that several stages
	// have is named <stage>/<group>.
	Scope SkipScope `json:"scope,omitempty"`
	Name  string    `json:"name,omitempty"`
	// Decision is that of a Decide.
	Decision *approval.Decision `json:"decision,omitempty"`
	// Only is that of a Retry.
	Only Only `json:"only,omitempty"`
	// Until is that of a Bypass, at most 7 days after the command is carried out.
	Until time.Time `json:"until,omitzero"`
}

// Answer is what an authority answers to a request as it was then. It is for
// approvals that hold at a point in time only, by [approval.Decision].PointInTime: such
// a decision cannot be given by a [Decide], which may be stored and read late.
//
// The request passes where, with all such answers of the step, nothing is missing: an answer counts that was
// given to the request as it is, with as many decisions recorded, at most [approval.PointInTimeAge] ago, once
// the waits of the same side have ended, and while the run is Running. One that does not count is not kept:
// the authority is asked again. A rejection, and an approval that stands, are taken in as by a Decide. A
// refused one changes nothing and makes no event.
type Answer struct {
	// Request is that of the [Action] that asked.
	Request approval.Request
	// Decision needs no Binding. Its At is when it was given; zero means now.
	Decision approval.Decision
}

// Action is something to be done now. It is returned by every step for as long
// as it is needed; a driver that is already doing it goes on.
type Action struct {
	Type ActionType
	// Cluster, UID, Attempt and Revision say what is to be done where.
	// Revision is empty for Remove.
	Pos      int
	Cluster  string
	UID      string
	Attempt  int
	Revision string
	// Sent reports whether the member may have been changed for the run already, by
	// this attempt or by one before it: a driver that has taken the run over
	// knows that from here, and not only what it has sent itself.
	Sent bool
	// Request is that of an Ask.
	Request *approval.Request
	// Measure is the question of a Measure.
	Measure *check.Question
}

// ActionType says what an [Action] does.
type ActionType string

// The types of action.
const (
	// Apply: bring the cluster to Revision, then observe it until the action
	// is no longer returned.
	Apply ActionType = "Apply"
	// Observe: the revision has been carried out; keep observing.
	Observe ActionType = "Observe"
	// Remove: clean the cluster and observe it.
	Remove ActionType = "Remove"
	// Ask: put the request to the authority, and again when it is another one: when it
	// has more decisions, or no waits beside it any more.
	Ask ActionType = "Ask"
	// Measure: put the question to its provider, once.
	Measure ActionType = "Measure"
)

// Ready is the outcome of a step: save Run and Events, then do Actions, then
// step again at Wake or when there is input.
type Ready struct {
	Run     Run
	Actions []Action
	Events  []Event
	// Wake is when to step again without any input; zero means only on input.
	Wake time.Time
	// Wants is how many clusters would be in flight now if it were not for the Cap of
	// the strategy; 0 where that names none.
	Wants int
	// Changed reports whether Run differs from the run that was stepped in more
	// than its clock, and has to be saved before Actions are done.
	Changed bool
	// Err is a [*RunError] where the run is not one of the plan: nothing was done, and
	// the rest of the outcome is empty but for Run, which is as it was. It will not
	// help to step again.
	Err error
}

// Words says in words what only is about.
func (only Only) Words() string {
	switch only {
	case OnlyFailed:
		return "failed clusters"
	case OnlySkipped:
		return "skipped clusters"
	default:
		return "failed or skipped clusters"
	}
}

// Changes returns when a window changes, after now and rounded up; 0 where it
// does not.
func (w *Window) Changes(now Instant) Instant {
	if w.Until.IsZero() {
		return 0
	}
	at := At(w.Until)
	if at.Time().Before(w.Until) {
		at++
	}
	return min(max(at, now+1), LastInstant)
}
