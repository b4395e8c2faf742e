package stages

import (
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// MaxPlacementName is how long the name of a placement may be: it ends an
// annotation on everything that is placed.
const MaxPlacementName = 63

// Target is what a run brings the clusters to. A digest is printable ASCII
// without spaces, at most 253 bytes.
type Target struct {
	// Placement is a DNS subdomain of at most [MaxPlacementName] characters.
	Placement string
	// Index, at least 0, and Snapshot are the index and the digest of the
	// snapshot.
	Index    int
	Snapshot string
	// Decision is the digest of the placement decision.
	Decision string
	// Revision is the digest of what a cluster gets after overrides, by the
	// cluster's name; Default is that of every cluster it does not name, and
	// may be empty when it names all.
	Default  string
	Revision map[string]string
	// Remove names the clusters that left the placement, with the UID that is
	// known for each or "".
	Remove map[string]string
	// Part tells that the clusters are only some of those that the strategy is
	// for, as in a run that catches up: they may be fewer than a cap names.
	Part bool
}

// Plan is a strategy resolved against clusters and a target. It never changes:
// it is shared by everyone who reads it, and what was approved is what it
// says. [NewPlan] makes one, [Plan.Encode] and [DecodePlan] store it; its own
// JSON leaves out what grows with the fleet.
type Plan struct {
	Strategy Strategy `json:"strategy"`

	Placement string `json:"placement"`
	// Index and Snapshot are those of the newest snapshot that a cluster gets.
	Index    int    `json:"index"`
	Snapshot string `json:"snapshot"`
	Decision string `json:"decision"`

	// Rollback tells that the plan takes back what a run brought; nil in others.
	Rollback *PlannedRollback `json:"rollback,omitempty"`

	Stages []PlannedStage `json:"stages"`
	// Revisions are the distinct digests that clusters get, ascending.
	Revisions []string `json:"-"`
	// Clusters stand in the order of the plan: by stage, group and sort key.
	// The index of a cluster in it is its position.
	Clusters []PlannedCluster `json:"-"`
	// Warnings say what is allowed and probably not meant. Digest does not
	// cover them.
	Warnings []string `json:"warnings,omitempty"`
	// Digest covers everything above but Warnings, in hex.
	Digest string `json:"digest"`

	// byName has the positions in the order of the clusters' names.
	byName []int32
	// cells has the members of the cells of each group of each stage; nil where no
	// stage has any.
	cells [][][]cellMembers
}

// PlannedStage is a stage with its numbers resolved.
type PlannedStage struct {
	Name string `json:"name"`
	// Remove tells that clusters are cleaned rather than updated.
	Remove bool `json:"remove,omitempty"`
	// MaxConcurrency is a number of clusters, which may be more than there
	// are; 0 means no limit of its own.
	MaxConcurrency int `json:"maxConcurrency"`
	// MaxFailures is how many clusters may fail; -1 means no limit.
	MaxFailures int `json:"maxFailures"`
	// Strict makes MaxFailures a bound, see [Stage].StrictFailures.
	Strict bool `json:"strict,omitempty"`
	// Domains are the failure domains of the stage: those of one label after those of
	// another, as the strategy has them, by value, the clusters without it last.
	Domains []PlannedDomain `json:"domains,omitempty"`
	// Cells are the combinations of domains that clusters have, each as indexes into
	// Domains, one for each label; ascending.
	Cells [][]int `json:"cells,omitempty"`
	// Groups has at least one element.
	Groups []PlannedGroup `json:"groups"`
	// Gates are those before the stage, then those after it.
	Gates []PlannedGate `json:"gates,omitempty"`
	Flow
}

// PlannedGroup is a group with its numbers resolved, and a range of
// Plan.Clusters.
type PlannedGroup struct {
	// Name is empty for the one group of a stage without groups.
	Name  string `json:"name,omitempty"`
	First int    `json:"first"`
	Len   int    `json:"len"`
	// MaxConcurrency is at least 1; MaxFailures as in PlannedStage.
	MaxConcurrency int  `json:"maxConcurrency"`
	MaxFailures    int  `json:"maxFailures"`
	Strict         bool `json:"strict,omitempty"`
	// Gates are those before the group, then those after it.
	Gates []PlannedGate `json:"gates,omitempty"`
	// After are the groups of the stage, by index, that end before this one begins.
	After []int `json:"after,omitempty"`
	Flow
}

// PlannedGate is a task on one side of a stage or a group.
type PlannedGate struct {
	When approval.When `json:"when"`
	Type TaskType      `json:"type"`
	Wait time.Duration `json:"wait,omitempty"`
	// Policy is set for an Approval.
	Policy approval.Policy `json:"policy,omitzero"`
	// Schedule is set for a ScheduledStart.
	Schedule *Schedule `json:"schedule,omitempty"`
}

// PlannedCluster is a cluster with what it gets.
type PlannedCluster struct {
	Name string
	UID  string
	// Revision is an index into Plan.Revisions; -1 in the removal stage.
	Revision int
	// Cell is an index into the Cells of its stage; 0 where that has none.
	Cell int
}
