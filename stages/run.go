package stages

import (
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// State is the state of a run, a stage or a cluster.
type State string

// The states. A run is never Skipped; clusters and stages are never Queued or
// Superseded.
const (
	NotStarted State = "NotStarted"
	// Pending: a run waits for another run, or a gate for its condition. A cluster is
	// Pending if it is outside its window, if it could not be reached before anything was
	// sent to it, or if it is to be retried.
	Pending   State = "Pending"
	Running   State = "Running"
	Stopping  State = "Stopping"
	Stopped   State = "Stopped"
	Skipped   State = "Skipped"
	Failed    State = "Failed"
	Completed State = "Completed"
	// Aborted and Superseded runs are never resumed.
	Aborted    State = "Aborted"
	Superseded State = "Superseded"
)

// Run is the whole state of a run besides its plan: small, plain data. Its JSON decodes to an
// equal run. Its size grows with the clusters in flight and the unsuccessful ones, not with the
// fleet. If thousands of clusters fail or cannot be reached, it keeps only the data that
// step.Step needs, and the events hold the rest.
type Run struct {
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Placement string            `json:"placement"`
	Plan      string            `json:"plan"`
	Starter   approval.Identity `json:"starter,omitzero"`

	State State `json:"state"`
	// Reason explains the state if it is not obvious: the cause of a failure, the identity
	// that stopped the run, or the run that it waits for.
	Reason string `json:"reason,omitempty"`
	// Ahead is the run of the placement that a Pending run waits for; empty in every other state.
	Ahead string `json:"ahead,omitempty"`
	// Hold keeps a run from starting until a Start command.
	Hold bool `json:"hold,omitempty"`
	// Ending is the state in which a Stopping run will end: Stopped, Failed or Superseded.
	Ending State `json:"ending,omitempty"`
	// Attempt counts the starts of the run, from 1.
	Attempt int `json:"attempt"`

	// Now is the latest time the run has seen; time never goes back for it.
	Now     Instant `json:"now,omitempty"`
	Created Instant `json:"created,omitempty"`
	Started Instant `json:"started,omitempty"`
	Ended   Instant `json:"ended,omitempty"`
	// StopAt is the time after which clusters in flight no longer delay a stop or a
	// supersession.
	StopAt Instant `json:"stopAt,omitempty"`

	// Closing is set if the run has failed or was aborted and still runs its stages and
	// groups with [Flow].Always.
	Closing *Closing `json:"closing,omitempty"`
	// Halted is the time at which the timeouts were paused because the run was stopping.
	Halted Instant `json:"halted,omitempty"`

	// Stage is the stage the run is in; len(Plan.Stages) when all are done.
	Stage  int        `json:"stage"`
	Stages []StageRun `json:"stages"`
	// InFlight are the clusters in flight. A slot keeps its place while its
	// cluster is in flight; a free slot has Attempt 0.
	InFlight []InFlight `json:"inFlight,omitempty"`
	// Waiting are the clusters without a slot: unreachable before anything was sent, at most 256 of them, or
	// to be retried after a restart.
	Waiting []Retrying `json:"waiting,omitempty"`
	// Unsuccessful are the clusters that were skipped or have failed, by position.
	// The first 256 keep their reason.
	Unsuccessful []Unsuccessful `json:"unsuccessful,omitempty"`
	// RollbackRequest is set if a rollback of the run was requested.
	RollbackRequest *RollbackRequest `json:"rollback,omitempty"`
	// Capped reports whether clusters could start if it were not for the Cap of the
	// strategy.
	Capped bool `json:"capped,omitempty"`
	// Bypass lets clusters start outside their windows for a while.
	Bypass *Bypass `json:"bypass,omitempty"`
	// Seen are the ids of the latest commands, so that a command delivered twice has no
	// further effect.
	Seen []string `json:"seen,omitempty"`
}

// StageRun is the stored state of a stage.
type StageRun struct {
	State State `json:"state"`
	// Reached is when the run reached the stage, and Started when its first cluster could
	// start. Done is when its last group ended; in groups without gates that is the end of
	// the last cluster. Ended is when the gates after the stage had passed too.
	Reached Instant    `json:"reached,omitempty"`
	Started Instant    `json:"started,omitempty"`
	Done    Instant    `json:"done,omitempty"`
	Ended   Instant    `json:"ended,omitempty"`
	Groups  []GroupRun `json:"groups,omitempty"`
	Gates   []Gate     `json:"gates,omitempty"`
	// Checks are the states of the stage's checks while the stage is in progress.
	Checks []CheckRun `json:"checks,omitempty"`
	// SkipGates and SkipWait report whether an operator skipped the stage or its
	// after-stage wait.
	SkipGates bool `json:"skipGates,omitempty"`
	SkipWait  bool `json:"skipWait,omitempty"`
	Clock
}

// GroupRun counts the clusters of a group.
type GroupRun struct {
	// Next is the offset in the group of the next cluster to start. In a stage with failure
	// domains, Next is the number of clusters that the run has reached, and Cells splits
	// that number by the cells of the group, in the order of the stage's cells.
	Next      int   `json:"next"`
	Completed int   `json:"completed,omitempty"`
	Failed    int   `json:"failed,omitempty"`
	Skipped   int   `json:"skipped,omitempty"`
	Cells     []int `json:"cells,omitempty"`
	// Deferred are the clusters before Next that have not started, ascending: clusters behind them went
	// first, because their windows were open. When there are 1024 ranges in a group, or its share of the 2048
	// in a stage, no further cluster is deferred.
	Deferred []Deferred `json:"deferred,omitempty"`
	// Reached is when the run reached the group's gates, which is when the stage started.
	// Done is when its last cluster ended, and Ended when its gates had passed too. All
	// three are 0 in a group without gates and timeout, in a stage in which no group waits
	// for others. SkipGates reports whether an operator skipped the group after the run had
	// reached its stage.
	Reached   Instant `json:"reached,omitempty"`
	Done      Instant `json:"done,omitempty"`
	Ended     Instant `json:"ended,omitempty"`
	Gates     []Gate  `json:"gates,omitempty"`
	SkipGates bool    `json:"skipGates,omitempty"`
	Clock
}

// Deferred is a range of clusters that have not started although later clusters have.
type Deferred struct {
	// First and Last are positions, both included.
	First int `json:"p"`
	Last  int `json:"q"`
	// Closed reports whether they are outside their windows. If false, clusters with
	// windows go first, or the clusters were queued again.
	Closed bool `json:"c,omitempty"`
	// NotYet is when the calendar is asked again, because the first of their windows may
	// open then. 0 means at the next change of the calendar.
	NotYet Instant `json:"u,omitempty"`
	// Reason explains why they are outside their windows, at most 80 bytes. It is empty if
	// the reasons differ, and beyond the first 64 ranges of a group.
	Reason string `json:"r,omitempty"`
}

// Bypass is a permission to start clusters outside their windows.
type Bypass struct {
	Until  Instant `json:"until"`
	By     string  `json:"by,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// Gate is a task of a stage or a group that the run has reached.
type Gate struct {
	When approval.When `json:"when"`
	Type TaskType      `json:"type"`
	// State is Pending while it holds the run, Completed, Skipped, or Failed
	// when it was rejected.
	State  State   `json:"state"`
	Opened Instant `json:"opened"`
	// Until is when a TimedWait or a ScheduledStart ends, or a request or the checks expire.
	Until Instant `json:"until,omitempty"`
	// Attempt counts the requests made at this gate, or how often its checks began, from 1.
	Attempt   int                 `json:"attempt,omitempty"`
	Decisions []approval.Decision `json:"decisions,omitempty"`
	Ended     Instant             `json:"ended,omitempty"`
	// Answered are the identities that approved for a point in time since the last decision
	// and have an event for it, at most 16. They are asked again when nothing else is
	// missing.
	Answered []string `json:"answered,omitempty"`
	// By is the identity that ended a ScheduledStart before its time.
	By string `json:"by,omitempty"`
	// Checks are the states of the checks of a CheckTask.
	Checks []CheckRun `json:"checks,omitempty"`
}

// ClusterPhase is the phase of a cluster in flight.
type ClusterPhase uint8

// The phases of a cluster in flight.
const (
	// Applying: the update is not carried out yet.
	Applying ClusterPhase = iota + 1
	// Settling: the update was carried out; the cluster is not healthy yet.
	Settling
	// Soaking: healthy, and must remain healthy until the soak ends.
	Soaking
	// BackingOff: an attempt failed; the next starts at Until.
	BackingOff
	// Measuring: healthy, and measured by the checks of its stage.
	Measuring
)

// String returns the name of the phase.
func (p ClusterPhase) String() string {
	names := [...]string{Applying: "Applying", Settling: "Settling", Soaking: "Soaking", BackingOff: "BackingOff", Measuring: "Measuring"}
	if int(p) >= len(names) {
		return "ClusterPhase(" + strconv.Itoa(int(p)) + ")"
	}
	return names[p]
}

// InFlight is a cluster in flight.
type InFlight struct {
	// Pos is the cluster's position in the plan.
	Pos int `json:"p"`
	// Attempt counts from 1; 0 marks a free slot.
	Attempt int          `json:"a"`
	Phase   ClusterPhase `json:"f"`
	// Sent reports whether the member may have been changed, by this attempt or by
	// one before it.
	Sent bool `json:"x,omitempty"`
	// Drain reports whether an operator skipped the cluster while it was in flight: it
	// finishes, and a failure does not count.
	Drain bool `json:"d,omitempty"`
	// Started is when the cluster started, moved forward by the time in which it was
	// Pending if that time does not count. Its deadline begins at Started.
	Started Instant `json:"s"`
	// Until is the end of the soak or of the backoff. A soaking cluster whose state becomes
	// unknown keeps Until while it is Settling.
	Until Instant `json:"u,omitempty"`
	// Message is the error of the last attempt or names the unhealthy objects, at most 256
	// bytes.
	Message string `json:"m,omitempty"`
	// Tries counts how often in a row the cluster could not be reached and yielded its
	// slot, and Since is the time of the first one.
	Tries int     `json:"t,omitempty"`
	Since Instant `json:"y,omitempty"`
	// Checks holds the states of its checks if the cluster is Measuring, or was before its
	// state became unknown. The value behind the pointer is immutable.
	Checks *ClusterCheckRun `json:"c,omitempty"`
}

// Retrying is a cluster without a slot that is started again later.
type Retrying struct {
	Pos int `json:"p"`
	// Attempt is the number of the next attempt.
	Attempt int `json:"a"`
	// Sent and Tries have the values of its [InFlight]. Tries is 0 if the cluster yielded
	// for another reason than being unreachable.
	Sent  bool `json:"x,omitempty"`
	Tries int  `json:"t,omitempty"`
	// Since is when it first yielded, NotYet the earliest time of the next attempt.
	Since  Instant `json:"y,omitempty"`
	NotYet Instant `json:"u,omitempty"`
	// Closed reports whether it is outside its window until NotYet; if NotYet is 0, until
	// the calendar changes.
	Closed bool `json:"c,omitempty"`
	// Started is the value of its [InFlight], and Spent the milliseconds from then until
	// the cluster yielded: its deadline continues from there.
	Started Instant `json:"s,omitempty"`
	Spent   int64   `json:"e,omitempty"`
	// Message is the reason why it yielded, at most 80 bytes.
	Message string `json:"m,omitempty"`
}

// Unsuccessful is a range of clusters that were skipped or have failed.
type Unsuccessful struct {
	// First and Last are positions, both included.
	First int   `json:"p"`
	Last  int   `json:"q"`
	State State `json:"s"`
	// Gone reports whether the cluster has left the inventory.
	Gone bool `json:"g,omitempty"`
	// Attempts is the number of attempts. Sent reports whether an attempt may have changed
	// a skipped cluster; a failed cluster may always be changed.
	Attempts int  `json:"a,omitempty"`
	Sent     bool `json:"x,omitempty"`
	// Reason is at most 256 bytes. It is empty beyond the first 256 ranges: the event of
	// the cluster has it.
	Reason string `json:"r,omitempty"`
}

// Closing marks a run that has failed or was aborted and only runs its stages and groups with
// [Flow].Always.
type Closing struct {
	// State is the state in which the run will end, Failed or Aborted, and Reason its
	// reason.
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Why returns the reason, or an empty string if the run is not closing.
func (c *Closing) Why() string {
	if c == nil {
		return ""
	}
	return c.Reason
}

// Clock is the timeout of a stage or a group in progress.
type Clock struct {
	// Deadline is when the timeout expires; it moves forward by the time in which the run
	// was stopped.
	Deadline Instant `json:"deadline,omitempty"`
	// TimedOut reports whether the deadline passed before the stage or group had ended.
	TimedOut bool `json:"timedOut,omitempty"`
}

// IsOver reports whether the deadline has passed.
func (c *Clock) IsOver(now Instant) bool { return c.Deadline != 0 && now >= c.Deadline }

// PutOff moves the deadline forward by the time in which a run was stopped.
func (c *Clock) PutOff(by Instant) {
	if c.Deadline != 0 {
		c.Deadline += by
	}
}

// IsBroken reports whether the run failed or was aborted in the stage.
func (r *StageRun) IsBroken() bool { return r.State == Failed || r.State == Aborted }

// RollbackRequest is the request to roll a run back. Such a run ends as Failed, in every
// profile, and is never started again; its driver then plans the rollback with
// planner.RollBack. A run that is superseded or aborted before its end is not rolled back.
type RollbackRequest struct {
	Cause RollbackCause `json:"cause"`
	// Run is the requested name of the run that does the rollback; if it is empty, the
	// planner of that run chooses a name.
	Run string `json:"run,omitempty"`
	// By is the identity that requested it; for other causes than OnCommand, the starter of
	// the run.
	By approval.Identity `json:"by,omitzero"`
	// Message explains the cause, at most 256 bytes.
	Message string `json:"message,omitempty"`
}

// Sentence returns the end of a sentence about a cluster that the run may have changed.
func (u *RollbackRequest) Sentence() string {
	if u == nil {
		return ""
	}
	return "; what the run brought is taken back: " + u.Message
}

// IsAborting reports whether the run was aborted and still runs stages and groups with
// [Flow].Always.
func (r *Run) IsAborting() bool { return r.Closing != nil && r.Closing.State == Aborted }

// Final reports whether the run will never do anything again. A failed run of profile
// ClusterUpdate is not final because it can be started again, unless a rollback was requested.
func (r *Run) Final(p *Plan) bool {
	switch r.State {
	case Completed, Aborted, Superseded:
		return true
	case Failed:
		return p.Strategy.Profile != ClusterUpdate || r.RollbackRequest != nil
	default:
		return false
	}
}

// IsEnded reports whether the run does nothing by itself any more and releases its placement.
func (r *Run) IsEnded() bool {
	switch r.State {
	case Completed, Aborted, Superseded, Failed:
		return true
	default:
		return false
	}
}

// IsBypassed reports whether clusters may start outside their windows.
func (r *Run) IsBypassed() bool { return r.Bypass != nil && r.Now < r.Bypass.Until }

// NewRun returns the run of a plan before its first step. The uid must not be empty and must
// identify the run among all runs, also among runs of the same name. A held run does not start
// until a Start command.
func NewRun(p *Plan, name, uid string, starter approval.Identity, hold bool, now time.Time) Run {
	created := min(max(At(now), 0), LastNow)
	r := Run{
		Name: values.Clean(name), UID: values.Clean(uid), Placement: p.Placement, Plan: p.Digest, Starter: values.CleanIdentity(starter),
		State: NotStarted, Hold: hold, Created: created, Now: created,
		Stages: make([]StageRun, len(p.Stages)),
	}
	for i := range r.Stages {
		r.Stages[i].State = NotStarted
	}
	return r
}
