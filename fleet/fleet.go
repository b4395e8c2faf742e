package fleet

import (
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Placement declares which objects are placed on which clusters. A host declares it, and the engine
// makes snapshots and selections from it.
type Placement struct {
	// Name is a DNS subdomain of at most 63 characters, unique in the store.
	Name string `json:"name"`
	// Owner is the host's identifier that distinguishes placements of the same name, at most 253
	// bytes. It cannot be changed, and a deletion may name it: see [DeleteOptions].
	Owner string `json:"owner,omitempty"`
	// Namespace, if not empty, is the namespace of the source whose authors declare the placement:
	// every selector must be in that namespace, and all objects of the placement must obey
	// Config.NamespaceRules. A placement without a namespace belongs to an administrator.
	Namespace string `json:"namespace,omitempty"`
	// Selectors pick the objects; at least one.
	Selectors []snapshot.Selector `json:"selectors"`
	// Carry names the additional parts of the hub's objects that a snapshot includes: fields that
	// nobody set, and objects that controllers made. Plan.Warnings names the parts that are
	// omitted, see snapshot.Set.Omitted.
	Carry []snapshot.Carry `json:"carry,omitempty"`
	// AllowEmpty permits a snapshot if the selectors pick nothing. An update to an empty snapshot
	// removes all objects of the placement from a cluster. Without AllowEmpty an empty selection is
	// an error, and clusters keep their objects.
	AllowEmpty bool `json:"allowEmpty,omitempty"`
	// Policy picks the clusters; the zero value picks all.
	Policy placement.Policy `json:"policy,omitzero"`
	// Overrides change objects for some clusters. A snapshot freezes the overrides that select one
	// of its objects; other overrides may change without a new snapshot.
	Overrides []placement.Override `json:"overrides,omitempty"`
	// HistoryLimit is the number of snapshots kept beyond the ones that are still needed, 1 to
	// 1000; 0 means 10. A run that takes a snapshot deletes none before its end.
	HistoryLimit int `json:"historyLimit,omitempty"`
	// RunHistory is the number of ended runs that are kept, 1 to 500; 0 means 50. Beyond it, the
	// runs that ended first are forgotten with their events and plans, as if they were deleted; the
	// engine still knows the revision of each cluster. The oldest of the placement's own events are
	// forgotten too: see PlacementHandle.Follow.
	RunHistory int `json:"runHistory,omitempty"`
	// Admission is the policy for a run that is started while another run of the placement is
	// active; empty means Queue.
	Admission stages.Admission `json:"admission,omitempty"`
	// AllowCoOwnership lets the placement apply objects that another placement
	// applies too.
	AllowCoOwnership bool `json:"allowCoOwnership,omitempty"`
	// Exclusive prevents the placement from applying objects that another placement applies.
	// AllowCoOwnership then has another meaning: it lets the placement take over objects that have an
	// owner reference on the cluster, which are held back otherwise.
	Exclusive bool `json:"exclusive,omitempty"`
	// DeletePolicy says how to treat objects that must leave a cluster, because they or the cluster
	// left the placement, or because the placement is deleted. Objects that stay on the cluster are
	// reported, see stages.ObjectsReleased.
	DeletePolicy placement.DeletePolicy `json:"deletePolicy,omitempty"`
	// ReportStatus makes the engine watch the objects on clusters between runs, and call
	// Config.Reported with their status. It does so whatever ApplyStrategy.WhenToApply says. A
	// placement that only reports differences has no such status.
	ReportStatus bool `json:"reportStatus,omitempty"`
	// ApplyStrategy says how objects are applied, compared and kept. The zero value applies them in
	// runs and does not touch the clusters between runs.
	ApplyStrategy apply.Strategy `json:"applyStrategy,omitzero"`
}

// RunSpec asks for a run.
type RunSpec struct {
	// Name is a DNS subdomain of at most 63 characters, unique in the store.
	Name string `json:"name"`
	// Owner is recorded with the run and returned in its Status, so that a host can distinguish
	// runs of the same name; at most 253 bytes. The engine does not read it.
	Owner string `json:"owner,omitempty"`
	// Title is the host's own name for the run, at most 253 bytes. It is recorded with the run and
	// with its rollbacks, returned in their Status, and given to Config.RollbackName. The engine
	// does not read it.
	Title     string `json:"title,omitempty"`
	Placement string `json:"placement"`
	// Index is the snapshot to roll out; nil means the current objects of the source, of which a
	// snapshot is taken if none matches.
	Index *int `json:"index,omitempty"`
	// Strategy is copied into the plan. If it consists of a name only, the engine uses the declared
	// strategy of that name, see Engine.PutStrategy.
	Strategy stages.Strategy `json:"strategy"`
	// Hold makes the plan and leaves the run NotStarted until a command starts it.
	Hold bool `json:"hold,omitempty"`
	// Plan, if not empty, is the digest that the plan must have, usually the digest of a preview.
	Plan string `json:"plan,omitempty"`
	// Version, if not empty, is the version that the placement must have: the version of the
	// [PlacementView] on which the decision for the run was based. One compare-and-swap makes this
	// check and records the run.
	Version string `json:"version,omitempty"`
	// Starter is the identity of the caller, as the host authenticated it.
	Starter approval.Identity `json:"starter,omitzero"`
}
