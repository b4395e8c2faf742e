package stages

import (
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
)

// Input is the news since the last step. A cluster without an observation is unknown, not
// healthy.
type Input struct {
	// Now is the current time. If it is earlier than the time of the run, Step uses the time of
	// the run.
	Now time.Time
	// Observations are applied in order; a later one of the same cluster wins.
	Observations []Observation
	// Commands are applied in order, each once by its ID.
	Commands []Command
	// Answers are answers of authorities to open requests that hold at a point in time
	// only. They are applied together, after the commands, and count in this step or not at
	// all.
	Answers []Answer
	// Measured are answers to the questions of actions. An answer has no effect unless it
	// is the next one of its check.
	Measured []check.Measured
	// Gone names the clusters that left the inventory, or that are another
	// cluster under the same name.
	Gone []string
	// Unwatched reports whether the clusters were not watched since the last step, for
	// example after a restart. A soaking cluster then must be proven healthy again before
	// it is done, and a cluster whose attempt has begun counts as changed by it. A driver that
	// loads a run sets it in its first step.
	Unwatched bool
	// Blocked names the active run of the placement if that is another run. A run that has
	// not started waits for it.
	Blocked string
	// Calendar limits when clusters may be started; nil means at any time. It governs
	// starts only: clusters in flight continue.
	Calendar Calendar
	// Slots is the number of clusters that the run may have in flight under the Cap of its
	// strategy. It is ignored if the strategy names no cap. Clusters already in flight
	// continue even if Slots is smaller.
	Slots int
	// NewCalendar reports whether Calendar differs from the Calendar of the last step.
	NewCalendar bool
}

// Calendar returns the maintenance windows and freezes of the clusters of a plan. Like every part
// of an [Input] it must not change: the same arguments must give the same answer. It must return
// immediately, and may be called concurrently.
type Calendar interface {
	// Window returns the window that applies to the cluster at a position of the plan at a
	// moment.
	Window(pos int, at time.Time) Window
}

// Window is a period in which a cluster may be started, or a period in which it must not be
// started.
type Window struct {
	// Limited reports whether the cluster has windows, or whether a freeze is in force.
	Limited bool
	// Open reports whether the cluster may be started now; true unless Limited.
	Open bool
	// Until is when Open changes next; zero if it never does.
	Until time.Time
	// Reason says why it is not open, for example which freeze is in force.
	Reason string
}

// Observation is the state of a cluster read during an attempt.
type Observation struct {
	Cluster string
	// Attempt is the attempt during which the state was read; observations of other
	// attempts are ignored.
	Attempt int
	// Sent reports whether this attempt or an earlier one of the run may have changed the
	// member. Such a cluster keeps its slot if it cannot be reached, and a rollback includes it.
	Sent bool
	// Applied reports whether everything of the attempt has been carried out.
	Applied bool
	// Unchanged reports whether nothing had to be carried out.
	Unchanged bool
	// Revision is the digest that the cluster proves to have; in a removal, it is empty once all
	// objects are gone.
	Revision string
	// Current reports whether the cluster's report about itself is at least as new as the
	// last applied change.
	Current bool
	Healthy bool
	// Unreachable reports whether the cluster could not be asked.
	Unreachable bool
	// Failed reports whether the attempt failed, for the reason in Message. Permanent
	// reports whether an early retry will not help.
	Failed, Permanent bool
	// Skipped reports whether there is nothing to do for the cluster and nothing was done:
	// it is skipped, for the reason in Message.
	Skipped bool
	// Released names objects that were released instead of deleted since the last
	// observation, with the reason: see [ObjectsReleased]. It is for people.
	Released string
	// Altered names objects that were applied without one of their parts, and that part:
	// see [ObjectsAltered]. It is for people.
	Altered string
	// Message describes the failure or names the unhealthy objects.
	Message string
}

// Verb is the operation of a [Command].
type Verb string

// The verbs.
const (
	Start  Verb = "Start" // also resumes, and starts a failed ClusterUpdate run again
	Stop   Verb = "Stop"
	Abort  Verb = "Abort"
	Skip   Verb = "Skip"
	Decide Verb = "Decide" // an approval or a rejection
	// Supersede ends a run, which makes way for the run that Message names. Only an engine sends
	// it.
	Supersede Verb = "Supersede"
	// Retry continues a run that is Running, Pending, Stopped or Failed, and queues again the
	// clusters of its current stage that failed or were skipped. Only selects which of the two.
	Retry Verb = "Retry"
	// RequestRollback ends a started run as Failed and requests its rollback, as configured
	// in Rollback of its strategy. Name is the name of the run that does the rollback, or
	// empty. Package fleet sends it by RunHandle.Rollback, and not as a Command.
	RequestRollback Verb = "TakeBack"
	// CompleteGate ends a ScheduledStart, or the TimedWait of a pause, early. Name is the
	// stage or the group of the gate. A group whose name occurs in several stages, or is
	// also the name of a stage, is named <stage>/<group>.
	CompleteGate Verb = "CompleteGate"
	// BypassWindows lets clusters start outside their windows until Until. It must have a
	// Message with the reason. An Until in the past ends the bypass.
	BypassWindows Verb = "Bypass"
)

// Only selects the clusters of a [Retry].
type Only string

// The values of Only; empty means both.
const (
	OnlyFailed  Only = "Failed"
	OnlySkipped Only = "Skipped"
)

// SkipScope is the kind of target of a Skip command.
type SkipScope string

// The scopes of a skip.
const (
	SkipCluster   SkipScope = "Member"
	SkipGroup     SkipScope = "Group"
	SkipStage     SkipScope = "Stage"
	SkipAfterWait SkipScope = "AfterStageWait"
)

// Command is a request of an operator to a run.
type Command struct {
	// ID makes the command idempotent: of the commands with one ID, step.Step carries out the
	// first. Commands without an ID are all different.
	ID      string            `json:"id"`
	Verb    Verb              `json:"verb"`
	By      approval.Identity `json:"by,omitzero"`
	At      time.Time         `json:"at"`
	Message string            `json:"message,omitempty"`
	// Scope and Name are the target of a Skip. A group that several stages
	// have is named <stage>/<group>. For a Decide, Name is the name of the request.
	Scope SkipScope `json:"scope,omitempty"`
	Name  string    `json:"name,omitempty"`
	// Decision is the decision of a Decide. RunHandle.Command of package fleet sets its By and At,
	// and a missing Binding. A driver of its own sets all three: step.Step finds the request by the
	// Binding, and refuses a decision by another identity than By.
	Decision *approval.Decision `json:"decision,omitempty"`
	// Only selects the clusters of a Retry.
	Only Only `json:"only,omitempty"`
	// Until is the end of a Bypass, at most 7 days after the command is carried out.
	Until time.Time `json:"until,omitzero"`
}

// Answer is an authority's answer to a request at one moment. It exists for approvals that hold
// only at a point in time, see [approval.Decision].PointInTime. A [Decide] command cannot carry
// such an approval, because a command may be stored and read late.
//
// The request passes if all such answers of the step together give the approvals that are missing.
// An answer counts only if all of these are true: it was given to the current request, with the
// same number of recorded decisions; it is at most [approval.PointInTimeAge] old; it was given
// after the waits of the same side had ended; and the run is Running. An answer that does not count
// is dropped and the authority is asked again. A rejection or a lasting approval has the effect of
// a Decide. A refused answer changes nothing and emits no event.
type Answer struct {
	// Request is the request of the [Action] that asked.
	Request approval.Request
	// Decision needs no Binding. Its At is when it was given; zero means now.
	Decision approval.Decision
}

// Action is a task for the driver, which calls step.Step and does the I/O. Every step returns the
// action for as long as it is needed; a driver that already carries it out continues.
type Action struct {
	Type ActionType
	// Cluster, UID, Attempt and Revision define the target and the content. Revision is
	// empty for Remove.
	Pos      int
	Cluster  string
	UID      string
	Attempt  int
	Revision string
	// Sent reports whether this attempt or an earlier one of the run may already have
	// changed the member: an observation said so, or an attempt was under way at a step with
	// [Input].Unwatched. A driver that takes over a run learns this only from Sent.
	Sent bool
	// Request is the request of an Ask.
	Request *approval.Request
	// Measure is the question of a Measure.
	Measure *check.Question
}

// ActionType is the kind of an [Action].
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
	// Ask: send the request to the authority, and send it again when it changes: when it
	// has more decisions, or when the waits beside it have ended.
	Ask ActionType = "Ask"
	// Measure: send the question to its provider, once.
	Measure ActionType = "Measure"
)

// Words returns words for the clusters that the value selects.
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

// Changes returns when the window changes, after now and rounded up; 0 if it never does.
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
