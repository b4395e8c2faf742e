package fleet

import (
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Placement says what is placed where. It is what a host declares; snapshots
// and selections are made from it.
type Placement struct {
	// Name is a DNS subdomain of at most 63 characters, unique in the store.
	Name string `json:"name"`
	// Owner is the host's identifier that distinguishes placements of the same name, at most 253 bytes. It cannot
	// be changed, and a deletion may name it: see [DeleteOptions].
	Owner string `json:"owner,omitempty"`
	// Namespace, where it is not empty, is the namespace of the source whose authors
	// declare the placement: every selector is one of that namespace, and all that it
	// brings obeys Config.NamespaceRules. Empty is a placement of an administrator.
	Namespace string `json:"namespace,omitempty"`
	// Selectors pick the objects; at least one.
	Selectors []snapshot.Selector `json:"selectors"`
	// Carry names the parts of the objects of the hub that a snapshot has besides: fields that nobody set, objects that
	// controllers made. Plan.Warnings names what is left out, see snapshot.Set.Omitted.
	Carry []snapshot.Carry `json:"carry,omitempty"`
	// AllowEmpty takes a snapshot also where the selectors pick nothing, and an update to it removes all that the placement has
	// on a cluster. Otherwise that is an error, and clusters keep what they have.
	AllowEmpty bool `json:"allowEmpty,omitempty"`
	// Policy picks the clusters; the zero value picks all.
	Policy placement.Policy `json:"policy,omitzero"`
	// Overrides change objects for some clusters. A snapshot freezes those that select
	// one of its objects; the others may change without a new one.
	Overrides []placement.Override `json:"overrides,omitempty"`
	// HistoryLimit is how many snapshots are kept beyond those that are still
	// needed, 1 to 1000; 0 means 10.
	HistoryLimit int `json:"historyLimit,omitempty"`
	// RunHistory is how many runs that have ended are kept, 1 to 500; 0 means
	// 50. Beyond it those that ended first are forgotten, with their events and
	// plans, as if they were deleted; which clusters have what is remembered.
	// Of the placement's own events the oldest are forgotten too: see
	// Engine.Follow.
	RunHistory int `json:"runHistory,omitempty"`
	// Admission is the policy for a run that is started while another one of the placement is active; empty
	// means Queue.
	Admission stages.Admission `json:"admission,omitempty"`
	// AllowCoOwnership lets the placement apply objects that another placement
	// applies too.
	AllowCoOwnership bool `json:"allowCoOwnership,omitempty"`
	// Exclusive never lets the placement apply objects that another placement applies. AllowCoOwnership then lets it take
	// over objects that have an owner on the cluster, which are held back otherwise.
	Exclusive bool `json:"exclusive,omitempty"`
	// DeletePolicy says what becomes of objects that are to go from a cluster, because they or the cluster left the
	// placement, or the placement is deleted. What is left there is reported, see stages.ObjectsReleased.
	DeletePolicy placement.DeletePolicy `json:"deletePolicy,omitempty"`
	// ReportStatus has clusters watched between runs, whatever ApplyStrategy.WhenToApply says, and Config.Reported called with
	// the status that objects have there. A placement that only reports has none.
	ReportStatus bool `json:"reportStatus,omitempty"`
	// ApplyStrategy says how objects are applied, compared and kept. The zero
	// value applies them in runs and leaves the clusters alone in between.
	ApplyStrategy apply.Strategy `json:"applyStrategy,omitzero"`
}

// RunSpec asks for a run.
type RunSpec struct {
	// Name is a DNS subdomain of at most 63 characters, unique in the store.
	Name string `json:"name"`
	// Owner is recorded with the run and returned in its Status, so that a host can distinguish runs of the
	// same name; at most 253 bytes. The engine does not read it.
	Owner string `json:"owner,omitempty"`
	// Title is the host's own name for the run, at most 253 bytes. It is recorded with the run and with its
	// rollbacks, returned in their Status, and given to Config.RollbackName. The engine does not read it.
	Title     string `json:"title,omitempty"`
	Placement string `json:"placement"`
	// Index is the snapshot to roll out; nil means what the source holds now,
	// of which a snapshot is taken if there is none.
	Index *int `json:"index,omitempty"`
	// Strategy is copied into the plan.
	Strategy stages.Strategy `json:"strategy"`
	// Hold makes the plan and leaves the run NotStarted until it is started.
	Hold bool `json:"hold,omitempty"`
	// Plan, where not empty, is the digest that the plan must have: that of a
	// preview.
	Plan string `json:"plan,omitempty"`
	// Version, where not empty, is the version that the placement must have: that of the [PlacementView] that the run was
	// decided on. The run is recorded in one compare-and-swap with that check.
	Version string `json:"version,omitempty"`
	// Starter is the identity that asks, as the host authenticated it.
	Starter approval.Identity `json:"starter,omitzero"`
}
