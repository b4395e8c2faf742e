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
	// Pending: a run waits for another run, a gate for what passes it, a
	// cluster is outside its window, could not be reached before anything was sent
	// to it, or is to be tried again.
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

// Run is the whole state of a run besides its plan: small, plain data, stored as it is. Its JSON is whole and
// comes back equal. Its size grows with the clusters in flight and the unsuccessful ones, not with the fleet: where
// thousands of clusters fail or cannot be reached, it keeps what step.Step needs of them, and the events
// have the rest.
type Run struct {
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Placement string            `json:"placement"`
	Plan      string            `json:"plan"`
	Starter   approval.Identity `json:"starter,omitzero"`

	State State `json:"state"`
	// Reason says why the run is in its state, where that is not obvious: what made it fail, the identity
	// that stopped it, the run that it waits for.
	Reason string `json:"reason,omitempty"`
	// Ahead is the run of the placement that a Pending run waits for; empty in every other state.
	Ahead string `json:"ahead,omitempty"`
	// Hold keeps a run that has not started from starting until a Start
	// command.
	Hold bool `json:"hold,omitempty"`
	// Ending is the state that a run which is Stopping will come to: Stopped,
	// Failed or Superseded.
	Ending State `json:"ending,omitempty"`
	// Attempt counts the starts of the run, from 1.
	Attempt int `json:"attempt"`

	// Now is the latest time the run has seen; time never goes back for it.
	Now     Instant `json:"now,omitempty"`
	Created Instant `json:"created,omitempty"`
	Started Instant `json:"started,omitempty"`
	Ended   Instant `json:"ended,omitempty"`
	// StopAt is when clusters that are still in flight no longer hold up a
	// stop or a supersession.
	StopAt Instant `json:"stopAt,omitempty"`

	// Closing is set when the run has failed or was aborted and goes on with what
	// runs always.
	Closing *Closing `json:"closing,omitempty"`
	// Halted is since when the clocks of timeouts stand still, because the run is
	// stopped or about to be.
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
	// RollbackRequest is set if the run is to be rolled back.
	RollbackRequest *RollbackRequest `json:"rollback,omitempty"`
	// Capped reports whether clusters could start if it were not for the Cap of the
	// strategy.
	Capped bool `json:"capped,omitempty"`
	// Bypass lets clusters start outside their windows for a while.
	Bypass *Bypass `json:"bypass,omitempty"`
	// Seen are the ids of the latest commands, so that one that is delivered
	// again changes nothing.
	Seen []string `json:"seen,omitempty"`
}

// StageRun is the state of a stage, as it is stored.
type StageRun struct {
	State State `json:"state"`
	// Reached is when the run came to the stage, Started when its first
	// cluster could start, Done when its last group ended, which is when the last
	// cluster did where the groups have no gates, Ended when its gates had passed
	// too.
	Reached Instant    `json:"reached,omitempty"`
	Started Instant    `json:"started,omitempty"`
	Done    Instant    `json:"done,omitempty"`
	Ended   Instant    `json:"ended,omitempty"`
	Groups  []GroupRun `json:"groups,omitempty"`
	Gates   []Gate     `json:"gates,omitempty"`
	// Checks are how far those of the stage are that is going on.
	Checks []CheckRun `json:"checks,omitempty"`
	// SkipGates and SkipWait report whether an operator skipped the stage or its
	// after-stage wait.
	SkipGates bool `json:"skipGates,omitempty"`
	SkipWait  bool `json:"skipWait,omitempty"`
	Clock
}

// GroupRun counts the clusters of a group.
type GroupRun struct {
	// Next is the offset in the group of the next cluster to start.
	// In a stage with failure domains it is how many clusters the run has come to,
	// and Cells has how many those are in each cell of the group, in the order of the
	// stage's cells.
	Next      int   `json:"next"`
	Completed int   `json:"completed,omitempty"`
	Failed    int   `json:"failed,omitempty"`
	Skipped   int   `json:"skipped,omitempty"`
	Cells     []int `json:"cells,omitempty"`
	// Deferred are the clusters before Next that have not started, ascending: clusters behind them went
	// first, because their windows were open. When there are 1024 ranges in a group, or its share of the 2048
	// in a stage, no further cluster is deferred.
	Deferred []Deferred `json:"deferred,omitempty"`
	// Reached is when the run came to the group's gates, which is when the stage
	// started, Done when its last cluster ended, Ended when its gates had passed
	// too; all 0 in a group without gates, of a stage in which none
	// waits for others, without a timeout. SkipGates says that an operator
	// skipped the group once the run had come to its stage.
	Reached   Instant `json:"reached,omitempty"`
	Done      Instant `json:"done,omitempty"`
	Ended     Instant `json:"ended,omitempty"`
	Gates     []Gate  `json:"gates,omitempty"`
	SkipGates bool    `json:"skipGates,omitempty"`
	Clock
}

// Deferred is a range of clusters that are passed over: they have not started while others behind them have.
type Deferred struct {
	// First and Last are positions, both included.
	First int `json:"p"`
	Last  int `json:"q"`
	// Closed reports whether they are outside their windows; otherwise it is their
	// turn after those with windows, or they were lined up again.
	Closed bool `json:"c,omitempty"`
	// NotYet is when the calendar is asked about them again: the first of their
	// windows may open then. 0 means with the next change of the calendar.
	NotYet Instant `json:"u,omitempty"`
	// Reason is why they are outside their windows, at most 80 bytes; empty where
	// that differs, and beyond the first 64 ranges of a group.
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
	// Answered are the identities that approved for a point in time since the last decision and have an event
	// for it, at most 16: they are asked again when nothing else is missing.
	Answered []string `json:"answered,omitempty"`
	// By is the identity that ended a ScheduledStart before its time.
	By string `json:"by,omitempty"`
	// Checks are how far those of a CheckTask are.
	Checks []CheckRun `json:"checks,omitempty"`
}

// ClusterPhase is the phase of a cluster in flight.
type ClusterPhase uint8

// The phases of a cluster in flight.
const (
	// Applying: the update is to be carried out.
	Applying ClusterPhase = iota + 1
	// Settling: it was carried out; health is awaited.
	Settling
	// Soaking: healthy, and observed to stay so.
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
	// Drain reports whether the cluster was to be skipped while in flight: it
	// finishes, and a failure does not count.
	Drain bool `json:"d,omitempty"`
	// Started is when the cluster started, put off by the time that it was
	// Pending where that does not count: its deadline begins then.
	Started Instant `json:"s"`
	// Until is the end of the soak or of the backoff. A cluster that was soaking
	// and of which nothing is known keeps it while it is Settling.
	Until Instant `json:"u,omitempty"`
	// Message is why the last attempt failed or what is not healthy, at most
	// 256 bytes.
	Message string `json:"m,omitempty"`
	// Tries counts how often in a row the cluster could not be reached and
	// yielded its slot, Since is when it first did.
	Tries int     `json:"t,omitempty"`
	Since Instant `json:"y,omitempty"`
	// Checks are how far its checks are, where it is Measuring, or was before nothing was known of it. What they point to
	// never changes.
	Checks *ClusterCheckRun `json:"c,omitempty"`
}

// Retrying is a cluster without a slot that is started again later.
type Retrying struct {
	Pos int `json:"p"`
	// Attempt is the one to be made next.
	Attempt int `json:"a"`
	// Sent is that of its [InFlight], and so is Tries: 0 where it did not yield
	// because it could not be reached.
	Sent  bool `json:"x,omitempty"`
	Tries int  `json:"t,omitempty"`
	// Since is when it first yielded, NotYet the moment before which it is not
	// tried again.
	Since  Instant `json:"y,omitempty"`
	NotYet Instant `json:"u,omitempty"`
	// Closed reports whether it is outside its window, until NotYet; where that is 0,
	// until the calendar changes.
	Closed bool `json:"c,omitempty"`
	// Started is that of its [InFlight], Spent the milliseconds from then until
	// it yielded: a deadline goes on from there.
	Started Instant `json:"s,omitempty"`
	Spent   int64   `json:"e,omitempty"`
	// Message is why it yielded, at most 80 bytes.
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
	// Attempts is how often the cluster was tried. Sent reports whether a skipped cluster may have been
	// changed by an attempt; a failed one always may.
	Attempts int  `json:"a,omitempty"`
	Sent     bool `json:"x,omitempty"`
	// Reason is at most 256 bytes. It is empty in ranges after the first
	// 256: the event of the cluster has it.
	Reason string `json:"r,omitempty"`
}

// Closing is of a run that has failed or was aborted and goes on only with what
// runs always.
type Closing struct {
	// State is what the run comes to then, Failed or Aborted, for the Reason.
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Why is the reason, "" of a run that is not closing.
func (c *Closing) Why() string {
	if c == nil {
		return ""
	}
	return c.Reason
}

// Clock is the timeout of a stage or a group that has begun.
type Clock struct {
	// Deadline is when it is over; it is put off by the time the run was stopped.
	Deadline Instant `json:"deadline,omitempty"`
	// TimedOut reports whether it was over before the stage or group had ended.
	TimedOut bool `json:"timedOut,omitempty"`
}

// IsOver reports whether the deadline has passed.
func (c *Clock) IsOver(now Instant) bool { return c.Deadline != 0 && now >= c.Deadline }

// PutOff puts the deadline off by the time that a run was stopped.
func (c *Clock) PutOff(by Instant) {
	if c.Deadline != 0 {
		c.Deadline += by
	}
}

// IsBroken reports whether the run broke off in the stage.
func (r *StageRun) IsBroken() bool { return r.State == Failed || r.State == Aborted }

// RollbackRequest is the request to roll a run back. Such a run ends as Failed, in every profile, and is
// never started again; its driver then plans a run by planner.RollBack. A run that is superseded or aborted
// before that is not rolled back.
type RollbackRequest struct {
	Cause RollbackCause `json:"cause"`
	// Run is the requested name of the run that does the rollback; empty lets the planner of that run choose
	// one.
	Run string `json:"run,omitempty"`
	// By is the identity that requested it; for a cause other than OnCommand, the one that started the run.
	By approval.Identity `json:"by,omitzero"`
	// Message says what happened, at most 256 bytes.
	Message string `json:"message,omitempty"`
}

// Sentence ends the sentence about a cluster that the run may have changed.
func (u *RollbackRequest) Sentence() string {
	if u == nil {
		return ""
	}
	return "; what the run brought is taken back: " + u.Message
}

// IsAborting reports whether a run which was aborted does what runs always.
func (r *Run) IsAborting() bool { return r.Closing != nil && r.Closing.State == Aborted }

// Final reports whether the run will never do anything again. A failed run of
// profile ClusterUpdate is not final: it can be started again, unless what it
// brought is rolled back.
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

// IsEnded reports whether the run does nothing by itself any more and gives its
// placement free.
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

// NewRun returns the run of a plan before its first step. The uid identifies it among all runs, also those of
// the same name, and is not empty. A held run does not start until a Start command.
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
