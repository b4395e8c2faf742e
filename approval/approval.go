// Package approval decides whether a run may pass a gate: by which approvers, and how many of them.
//
// A run that reaches a gate makes a [Request]; an [Authority] answers it with a [Decision]; a [Policy] says
// how many approvals of which groups are required. [Evaluate] is the rule, a pure function. Identity is what
// the host authenticated; this package never takes it from a document.
//
// Neighbours: package stages opens the gates and keeps the decisions in the run; package fleet calls
// authorities and records their decisions.
package approval

import (
	"context"
	"time"
)

// Identity is a person or a service as the host authenticated it.
type Identity struct {
	// Name is compared byte by byte, so the host has to spell one identity one way. An empty name decides
	// nothing; neither does one of more than 512 bytes, with a space at an end, or with an invisible
	// character.
	Name string `json:"name"`
	// Groups are the groups the host vouches for.
	Groups []string `json:"groups,omitempty"`
}

// Quorum requires a number of approvals from the members of a group.
type Quorum struct {
	// Group is a name in Identity.Groups; empty means any identity.
	Group string `json:"group,omitempty"`
	// Count is how many different identities must approve, at least 1.
	Count int `json:"count"`
}

// Policy says which approvals pass a gate. The zero value requires one approval by any identity that the host
// accepts, the starter of the run included, and never expires.
type Policy struct {
	// Quorums must all be met. An identity counts once in each quorum whose group it is in. None means one
	// approval by any identity. An identity in none of the groups can neither approve nor reject.
	Quorums []Quorum `json:"quorums,omitempty"`
	// ForbidStarter refuses decisions by the identity that started the run, and all
	// decisions if that identity is unknown.
	ForbidStarter bool `json:"forbidStarter,omitempty"`
	// Expires is how long a request may be answered, at most 365 days; 0 means for ever. An expired request
	// is made again as the next attempt, without the approvals that it had.
	Expires time.Duration `json:"expires,omitempty"`
	// RequireBinding refuses answers without the Binding of the request that the approver was shown. Without
	// it an answer by name applies to the request that has that name when it arrives, which may be a request
	// of another attempt, or of a run of the same name made again. It is for hosts that receive answers; an
	// Authority is always given the request.
	RequireBinding bool `json:"requireBinding,omitempty"`
}

// When is the side of a stage, or of a group, on which a gate stands.
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
	// Group is the group of the stage that the gate is about; empty for the whole
	// stage.
	Group   string `json:"group,omitempty"`
	When    When   `json:"when"`
	Attempt int    `json:"attempt"`
	// Plan is the digest of the plan, which covers everything that will be
	// applied anywhere.
	Plan string `json:"plan"`
}

// Request is an open gate that requires decisions. The engine makes it when the gate is reached and not
// before.
type Request struct {
	// Name is <run>-after-<stage> after a stage, or <run>-<stage> if the run's strategy says
	// NamedByStage, and <run>-before-<stage> before a stage. The name of a request of a group has
	// -<group> at the end.
	Name      string `json:"name"`
	Run       string `json:"run"`
	Placement string `json:"placement"`
	Binding
	// Snapshot is the index that is being rolled out.
	Snapshot int       `json:"snapshot"`
	Starter  Identity  `json:"starter"`
	Policy   Policy    `json:"policy"`
	Opened   time.Time `json:"opened"`
	// NotBefore is the end of the other waits at the same gate; zero if there is none. An
	// approval that holds at a point in time only does not count before it.
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
	// At is set by the engine that received the decision; for an approval with PointInTime it is the time at
	// which it was given.
	At time.Time `json:"at"`
	// PointInTime says that an approval holds only at the moment at which it is given, as a measurement does:
	// the error rate is low, nothing has drifted. It counts only where it is the last that was missing, and
	// is at most [PointInTimeAge] old; an earlier one has to be given again. A rejection is final either way.
	PointInTime bool `json:"pointInTime,omitempty"`
	// Comment is at most 1024 bytes.
	Comment string  `json:"comment,omitempty"`
	Binding Binding `json:"binding"`
}

// PointInTimeAge is how old an approval with PointInTime may be when it counts: it allows for the delivery of
// the answer, and several authorities of one request have to agree within it.
const PointInTimeAge = time.Minute

// Authority answers requests: people by way of a queue, a webhook, a metric query, a change calendar.
//
// Decide is called when a request opens and again until the gate is decided:
// at intervals that grow, and at once when something has changed that the answer
// may depend on, which is that a decision of another approver was recorded, that a wait
// beside the request has ended, or that another authority has given an approval
// that holds at a point in time only. Package fleet says after which times. The
// request has the decisions that were recorded by then, and such approvals of other
// authorities as hold now, so that [Missing] says what the gate lacks besides the
// answer.
//
// It returns a decision without a verdict to say "not yet". It is called with a deadline, may be called again
// after a crash with the same request, and may block until the deadline. A panic counts as an error; an error
// is recorded, and the authority is called again later. The engine overwrites the decision's Binding and At.
//
// A recorded approval stands, however long other approvers take, and the authority is not called again. An
// approval that has to hold when the gate opens sets [Decision].PointInTime: the authority is called again
// after the last of the others approved, and only the last answer counts. It is not called after the gate has
// opened: clusters that a maintenance window or a cap delays further start on that answer.
type Authority interface {
	Decide(ctx context.Context, r Request) (Decision, error)
}

// Scheduler is an [Authority] that chooses the time of its next call, sooner or later than the
// intervals of the engine: a change calendar when it opens, a metric when it has new data.
//
// The engine calls NextAsk after Decide with the same request. NextAsk returns the time until
// the next call of Decide; zero or less leaves the choice to the engine. If something has
// changed, the engine calls the authority at once all the same. NextAsk must return at once and
// may be called concurrently.
type Scheduler interface {
	Authority
	NextAsk(r Request) time.Duration
}

// Func makes a function an [Authority].
type Func func(ctx context.Context, r Request) (Decision, error)

// Decide calls f.
func (f Func) Decide(ctx context.Context, r Request) (Decision, error) { return f(ctx, r) }
