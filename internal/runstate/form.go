// Package runstate has the stored form of a run. step.Run wraps it, so that hosts cannot depend on
// it. Packages of this module that need more than the outline of a run open it with a [Key].
package runstate

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// Key opens the stored form of a run, see step.Run.Form. Only packages of this module can name it.
type Key struct{ _ bool }

// Form is the stored form of a run, without the exported fields of step.Run.
type Form struct {
	// StopAt is the time after which clusters in flight no longer delay a stop or a supersession.
	StopAt stages.Instant `json:"stopAt,omitempty"`

	// Closing is set if the run has failed or was aborted and still runs its stages and
	// groups with [stages.Flow].Always.
	Closing *Closing `json:"closing,omitempty"`
	// Halted is when the timeouts were paused, because the run was stopping.
	Halted stages.Instant `json:"halted,omitempty"`

	// Stage is the stage the run is in; len(Plan.Stages) when all are done.
	Stage  int        `json:"stage"`
	Stages []StageRun `json:"stages"`
	// InFlight are the clusters in flight. A slot keeps its place while its
	// cluster is in flight; a free slot has Attempt 0.
	InFlight []InFlight `json:"inFlight,omitempty"`
	// Waiting are the clusters without a slot: unreachable before anything was sent, at most 256 of
	// them, or to be retried after a restart.
	Waiting []Retrying `json:"waiting,omitempty"`
	// Unsuccessful are the clusters that were skipped or have failed, by position.
	// The first 256 keep their reason.
	Unsuccessful []Unsuccessful `json:"unsuccessful,omitempty"`
	// RollbackRequest is set if a rollback of the run was requested.
	RollbackRequest *stages.RollbackRequest `json:"rollback,omitempty"`
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
	State stages.State `json:"state"`
	// Reached is when the run reached the stage, and Started when its first cluster could
	// start. Done is when its last group ended; in groups without gates that is the end of
	// the last cluster. Ended is when the gates after the stage had passed too.
	Reached stages.Instant `json:"reached,omitempty"`
	Started stages.Instant `json:"started,omitempty"`
	Done    stages.Instant `json:"done,omitempty"`
	Ended   stages.Instant `json:"ended,omitempty"`
	Groups  []GroupRun     `json:"groups,omitempty"`
	Gates   []Gate         `json:"gates,omitempty"`
	// Checks are the states of the stage's checks while the stage is in progress.
	Checks []stages.CheckRun `json:"checks,omitempty"`
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
	// Deferred are the clusters before Next that have not started, ascending: clusters behind them
	// went first, because their windows were open. When there are 1024 ranges in a group, or its
	// share of the 2048 in a stage, no further cluster is deferred.
	Deferred []Deferred `json:"deferred,omitempty"`
	// Reached is when the stage started and the run reached the group's gates. Done is when the
	// group's last cluster ended, and Ended when its gates had passed too. All three are 0 in a
	// group without gates and timeout, in a stage in which no group waits for others. SkipGates
	// reports whether an operator skipped the group after the run had reached its stage.
	Reached   stages.Instant `json:"reached,omitempty"`
	Done      stages.Instant `json:"done,omitempty"`
	Ended     stages.Instant `json:"ended,omitempty"`
	Gates     []Gate         `json:"gates,omitempty"`
	SkipGates bool           `json:"skipGates,omitempty"`
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
	// NotYet is when the calendar must be read again, because the first of their windows may open
	// then. 0 means at the next change of the calendar.
	NotYet stages.Instant `json:"u,omitempty"`
	// Reason explains why they are outside their windows, at most 80 bytes. It is empty if
	// the reasons differ, and beyond the first 64 ranges of a group.
	Reason string `json:"r,omitempty"`
}

// Bypass is a permission to start clusters outside their windows.
type Bypass struct {
	Until  stages.Instant `json:"until"`
	By     string         `json:"by,omitempty"`
	Reason string         `json:"reason,omitempty"`
}

// Gate is a task of a stage or a group that the run has reached.
type Gate struct {
	When approval.When   `json:"when"`
	Type stages.TaskType `json:"type"`
	// State is Pending while it holds the run, Completed, Skipped, or Failed
	// when it was rejected.
	State  stages.State   `json:"state"`
	Opened stages.Instant `json:"opened"`
	// Until is when a TimedWait or a ScheduledStart ends, or a request or the checks expire.
	Until stages.Instant `json:"until,omitempty"`
	// Attempt is the number of requests made at this gate, or of the times its checks began; from
	// 1.
	Attempt   int                 `json:"attempt,omitempty"`
	Decisions []approval.Decision `json:"decisions,omitempty"`
	Ended     stages.Instant      `json:"ended,omitempty"`
	// Answered are the identities that approved for a point in time since the last decision
	// and have an event for it, at most 16. They are asked again when nothing else is
	// missing.
	Answered []string `json:"answered,omitempty"`
	// By is the identity that ended a ScheduledStart before its time.
	By string `json:"by,omitempty"`
	// Checks are the states of the checks of a CheckTask.
	Checks []stages.CheckRun `json:"checks,omitempty"`
}

// InFlight is a cluster in flight.
type InFlight struct {
	// Pos is the cluster's position in the plan.
	Pos int `json:"p"`
	// Attempt counts from 1; 0 marks a free slot.
	Attempt int                 `json:"a"`
	Phase   stages.ClusterPhase `json:"f"`
	// Sent reports whether the member may have been changed, by this attempt or by
	// one before it.
	Sent bool `json:"x,omitempty"`
	// Assumed reports whether the member may have been changed without a report, because a driver
	// ended during an attempt.
	Assumed bool `json:"g,omitempty"`
	// Drain reports whether an operator skipped the cluster while it was in flight: it
	// finishes, and a failure does not count.
	Drain bool `json:"d,omitempty"`
	// Started is when the cluster started. It moves forward by the time in which the cluster was
	// Pending, if that time does not count. The deadline begins at Started.
	Started stages.Instant `json:"s"`
	// SoakEnds is the end of the soak. A soaking cluster whose state becomes unknown keeps
	// SoakEnds while it is Settling.
	SoakEnds stages.Instant `json:"e,omitempty"`
	// NotYet is the end of the backoff, the earliest time of the next attempt.
	NotYet stages.Instant `json:"u,omitempty"`
	// Message is the error of the last attempt or names the unhealthy objects, at most 256
	// bytes.
	Message string `json:"m,omitempty"`
	// Tries is the number of consecutive attempts that could not reach the cluster, so that it
	// yielded its slot. Since is the time of the first of these attempts, or of the first report
	// that a cluster with Sent or Assumed, which keeps its slot, is unreachable.
	Tries int            `json:"t,omitempty"`
	Since stages.Instant `json:"y,omitempty"`
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
	Since  stages.Instant `json:"y,omitempty"`
	NotYet stages.Instant `json:"u,omitempty"`
	// Closed reports whether it is outside its window until NotYet; if NotYet is 0, until
	// the calendar changes.
	Closed bool `json:"c,omitempty"`
	// Started is the value of its [InFlight], and Spent the milliseconds from then until
	// the cluster yielded: its deadline continues from there.
	Started stages.Instant `json:"s,omitempty"`
	Spent   int64          `json:"e,omitempty"`
	// Message is the reason why it yielded, at most 80 bytes.
	Message string `json:"m,omitempty"`
}

// Unsuccessful is a range of clusters that were skipped or have failed.
type Unsuccessful struct {
	// First and Last are positions, both included.
	First int          `json:"p"`
	Last  int          `json:"q"`
	State stages.State `json:"s"`
	// Gone reports whether the cluster has left the inventory.
	Gone bool `json:"g,omitempty"`
	// Unreached reports whether a failed cluster was never reached, so that it is unchanged.
	Unreached bool `json:"n,omitempty"`
	// Attempts is the number of attempts. Sent reports whether an attempt may have changed
	// a skipped cluster; a failed cluster may always be changed.
	Attempts int  `json:"a,omitempty"`
	Sent     bool `json:"x,omitempty"`
	// Reason is at most 256 bytes. It is empty beyond the first 256 ranges: the event of
	// the cluster has it.
	Reason string `json:"r,omitempty"`
}

// Closing marks a run that has failed or was aborted and only runs its stages and groups with
// [stages.Flow].Always.
type Closing struct {
	// State is the future state of the run, Failed or Aborted, and Reason its reason.
	State  stages.State `json:"state"`
	Reason string       `json:"reason,omitempty"`
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
	// Deadline is when the timeout expires. It moves forward by the time in which the run was
	// stopped.
	Deadline stages.Instant `json:"deadline,omitempty"`
	// TimedOut reports whether the deadline passed before the stage or group had ended.
	TimedOut bool `json:"timedOut,omitempty"`
}

// IsOver reports whether the deadline has passed.
func (c *Clock) IsOver(now stages.Instant) bool { return c.Deadline != 0 && now >= c.Deadline }

// PutOff moves the deadline forward by the duration of a stop.
func (c *Clock) PutOff(by stages.Instant) {
	if c.Deadline != 0 {
		c.Deadline += by
	}
}

// IsBroken reports whether the run failed or was aborted in the stage.
func (r *StageRun) IsBroken() bool { return r.State == stages.Failed || r.State == stages.Aborted }

// ClusterCheckRun is the state of the checks of a healthy cluster.
type ClusterCheckRun struct {
	// Since is when the cluster became healthy, Until when its checks expire.
	Since  stages.Instant    `json:"s"`
	Until  stages.Instant    `json:"u"`
	Checks []stages.CheckRun `json:"c"`
}
