// Package approval decides whether a run may pass a gate, and which approvers and how many of
// them are required.
//
// A run creates a [Request] when it reaches a gate; an [Authority] answers it with a [Decision];
// a [Policy] requires a number of approvals from groups. [Evaluate] is the decision rule, a pure
// function. The host authenticates each Identity; this package never reads one from a document.
//
// Neighbours: package stages opens the gates and keeps the decisions in the run; package fleet
// calls authorities and records their decisions.
package approval

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Identity is a person or a service that the host has authenticated.
type Identity struct {
	// Name is compared byte by byte, so the host must spell an identity the same way every time. An
	// identity cannot decide if its name is empty, has more than 512 bytes, begins or ends with a
	// space, or has an invisible character.
	Name string `json:"name"`
	// Groups are the groups of the identity according to the host.
	Groups []string `json:"groups,omitempty"`
}

// Quorum requires a number of approvals from the members of a group.
type Quorum struct {
	// Group is a name in Identity.Groups; empty means any identity.
	Group string `json:"group,omitempty"`
	// Count is the number of different identities that must approve, at least 1.
	Count int `json:"count"`
}

// Policy defines the approvals that a gate requires. The zero value requires one approval by any
// identity that the host accepts, including the starter of the run, and never expires.
type Policy struct {
	// Quorums must all be met. An identity counts once in each quorum whose group it is in, unless
	// DistinctApprovers is set. None means one approval by any identity. An identity in none of the
	// groups can neither approve nor reject.
	Quorums []Quorum `json:"quorums,omitempty"`
	// DistinctApprovers makes each approval count in one quorum only, so that nobody approves for two
	// groups. If an identity is in several of the groups, its approval counts where it is needed: in
	// the first unmet quorum of its groups, and in another one if a later approver could only meet
	// that first quorum. An authority counts as one approver: if it joins the approvals of several
	// authorities into one, that approval counts in one quorum.
	DistinctApprovers bool `json:"distinctApprovers,omitempty"`
	// ForbidStarter refuses decisions by the identity that started the run, and all
	// decisions if that identity is unknown.
	ForbidStarter bool `json:"forbidStarter,omitempty"`
	// Expires is the lifetime of a request, at most 365 days; 0 means for ever. An expired request
	// is created again as the next attempt, without its previous approvals.
	Expires metav1.Duration `json:"expires,omitzero"`
	// RequireBinding refuses answers without the Binding of the request that the approver has seen.
	// Without it, an answer that only names a request applies to the request that has this name when
	// the answer arrives. That may be a request of another attempt, or of a new run of the same name.
	// RequireBinding is for hosts that receive answers; an Authority always receives the request.
	RequireBinding bool `json:"requireBinding,omitempty"`
}

// When is the position of a gate relative to a stage or a group.
type When string

// The sides of a stage or a group.
const (
	Before When = "Before"
	After  When = "After"
)

// Binding identifies the subject of a decision. A decision is refused if its binding differs
// from its request's in any field, so that it cannot be used for another run, a new run of the
// same name, another stage or group, an earlier attempt or another plan.
type Binding struct {
	RunUID string `json:"runUID"`
	Stage  string `json:"stage"`
	// Group is the name of the group in a group's request; empty for the whole stage.
	Group   string `json:"group,omitempty"`
	When    When   `json:"when"`
	Attempt int    `json:"attempt"`
	// Plan is the digest of the plan, which covers everything that will be
	// applied anywhere.
	Plan string `json:"plan"`
}

// Request is an open gate that requires decisions. The engine creates it when the run reaches the
// gate, and not before.
type Request struct {
	// Name is <run>-before-<stage> before a stage. After a stage, it is <run>-after-<stage>, or
	// <run>-<stage> if the run's strategy uses NamedByStage. The name of a group's request ends with
	// -<group>.
	Name      string `json:"name"`
	Run       string `json:"run"`
	Placement string `json:"placement"`
	Binding
	// Snapshot is the index of the snapshot that the run rolls out.
	Snapshot int       `json:"snapshot"`
	Starter  Identity  `json:"starter"`
	Policy   Policy    `json:"policy"`
	Opened   time.Time `json:"opened"`
	// NotBefore is the end of the other waits at the same gate; zero if there is none. An approval
	// with PointInTime does not count before it.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Decisions are the decisions so far, in the order of their arrival.
	Decisions []Decision `json:"decisions,omitempty"`
}

// Verdict is an answer to a request.
type Verdict string

// The verdicts. The zero value is no answer.
const (
	Approve Verdict = "Approve"
	Reject  Verdict = "Reject"
)

// Decision is one answer to a [Request].
type Decision struct {
	Verdict Verdict  `json:"verdict"`
	By      Identity `json:"by"`
	// At is the arrival time of the decision at the engine, or for an approval with PointInTime the
	// time of the approval itself.
	At time.Time `json:"at"`
	// PointInTime means that an approval is valid only for the moment, like a measurement: the error
	// rate is low, or there is no drift. It counts only if it is the last missing approval and at
	// most [PointInTimeAge] old; an earlier approval of this kind must be given again. A rejection is
	// final in either case.
	PointInTime bool `json:"pointInTime,omitempty"`
	// Comment is at most 1024 bytes.
	Comment string  `json:"comment,omitempty"`
	Binding Binding `json:"binding"`
}

// PointInTimeAge is the maximum age of a valid approval with PointInTime. It leaves time to
// deliver the answer. If several authorities of one request give such approvals, they must
// all do so within this time.
const PointInTimeAge = time.Minute

// Authority answers requests. It may ask people through a queue, call a webhook, query a metric, or
// read a change calendar.
//
// The engine calls Decide when a request opens and again until the gate is decided. The intervals
// grow. It also calls Decide immediately after a change that may affect the answer: a decision of
// another approver was recorded, a wait beside the request has ended, or another authority has
// given an approval with PointInTime. Package fleet documents the intervals. The request contains
// the decisions recorded so far and the currently valid PointInTime approvals of other
// authorities, so that [Missing] returns the approvals that the gate lacks besides this answer.
//
// Decide returns a decision without a verdict to say "not yet". It is called with a deadline, may
// be called again after a crash with the same request, and may block until the deadline. A panic
// counts as an error. The engine records an error and calls the authority again later. The engine
// overwrites the decision's Binding and At.
//
// A recorded approval stays valid, however long other approvers take, and the authority is not
// called again. An approval that must be valid when the gate opens sets [Decision].PointInTime:
// the engine calls the authority again after all other approvers have approved, and only the last
// answer counts. It does not call the authority after the gate has opened: clusters that a
// maintenance window or a cap delays further start with this answer.
type Authority interface {
	Decide(ctx context.Context, r Request) (Decision, error)
}

// Scheduler is an [Authority] that chooses when the engine calls it next, instead of the engine's
// intervals. For example, a change calendar asks to be called when it opens, and a metric when it
// has new data.
//
// The engine calls NextAsk after Decide with the same request. NextAsk returns the time until the
// next call of Decide; zero or less leaves the choice to the engine. If something has changed,
// the engine still calls the authority immediately. NextAsk must return without blocking and may
// be called concurrently.
type Scheduler interface {
	Authority
	NextAsk(r Request) time.Duration
}

// Func makes a function an [Authority].
type Func func(ctx context.Context, r Request) (Decision, error)

// Decide calls f.
func (f Func) Decide(ctx context.Context, r Request) (Decision, error) { return f(ctx, r) }
