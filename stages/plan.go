package stages

import (
	"cmp"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
)

// MaxPlacementName is the maximum length of a placement's name, which is the last part of an
// annotation's key on every placed object.
const MaxPlacementName = 63

// MaxLeft is the maximum number of clusters outside the inventory that a plan names. If there are
// more, later plans name the rest.
const MaxLeft = 500

// Plan is a strategy resolved against clusters and a target. It never changes, so that its
// readers may share it and a run carries out exactly the approved content. planner.Plan makes a
// plan; [Plan.Encode] and [DecodePlan] store it in pieces, and its JSON holds it whole. A Plan
// put together in another way is invalid.
type Plan struct {
	Strategy Strategy `json:"strategy"`

	Placement string `json:"placement"`
	// Index and Snapshot identify the newest snapshot that a cluster gets.
	Index     int    `json:"index"`
	Snapshot  string `json:"snapshot"`
	Selection string `json:"selection"`

	// Rollback is set in a plan that rolls a run back.
	Rollback *PlannedRollback `json:"rollback,omitempty"`

	// Left are the clusters that may have content but were no longer in the inventory when
	// the plan was made, ascending. A run does nothing on these clusters. After the run has completed,
	// they are recorded as having nothing of the placement.
	Left []string `json:"left,omitempty"`

	Stages []PlannedStage `json:"stages"`
	// Revisions are the distinct digests that clusters get, ascending.
	Revisions []string `json:"-"`
	// Clusters are in the order of the plan: by stage, group and sort key. The index of a cluster in
	// it is its position.
	Clusters []PlannedCluster `json:"-"`
	// Warnings name settings that are allowed but probably unintended. Digest does not
	// cover them.
	Warnings []string `json:"warnings,omitempty"`
	// Digest covers everything above but Warnings, in hex.
	Digest string `json:"digest"`

	// byName has the positions in the order of the clusters' names.
	byName []int32
	// cells holds the members of each cell, by stage and group; nil if no stage has cells.
	cells [][][]CellMembers
}

// PlannedStage is a stage with its numbers resolved.
type PlannedStage struct {
	Name string `json:"name"`
	// Remove reports whether clusters are cleaned rather than updated.
	Remove bool `json:"remove,omitempty"`
	// MaxConcurrency is a number of clusters, which may be more than there
	// are; 0 means no limit of its own.
	MaxConcurrency int `json:"maxConcurrency"`
	// MaxFailures is the maximum number of failed clusters; -1 means no limit.
	MaxFailures int `json:"maxFailures"`
	// Strict makes MaxFailures a bound, see [Stage].StrictFailures.
	Strict bool `json:"strict,omitempty"`
	// Domains are the failure domains of the stage: by label in the order of the strategy,
	// then by value. The domain of the clusters without the label comes last.
	Domains []PlannedDomain `json:"domains,omitempty"`
	// Cells are the combinations of domains that clusters have, each as indexes into
	// Domains, one for each label; ascending.
	Cells [][]int `json:"cells,omitempty"`
	// Groups has at least one element.
	Groups []PlannedGroup `json:"groups"`
	// Gates are the gates before the stage, then the gates after it.
	Gates []PlannedGate `json:"gates,omitempty"`
	// Checks and ClusterChecks are the checks of the stage.
	Checks        []check.Check `json:"checks,omitempty"`
	ClusterChecks []check.Check `json:"clusterChecks,omitempty"`
	Flow
}

// PlannedGroup is a group with its numbers resolved, and a range of
// Plan.Clusters.
type PlannedGroup struct {
	// Name is empty for the one group of a stage without groups.
	Name  string `json:"name,omitempty"`
	First int    `json:"first"`
	Len   int    `json:"len"`
	// Unproven is the number of unproven clusters, which are the first of the group, see
	// [Group].UnprovenFirst.
	Unproven int `json:"unproven,omitempty"`
	// New reports whether its clusters had nothing of the placement when the plan was made.
	New bool `json:"new,omitempty"`
	// MaxConcurrency is at least 1; MaxFailures as in PlannedStage.
	MaxConcurrency int  `json:"maxConcurrency"`
	MaxFailures    int  `json:"maxFailures"`
	Strict         bool `json:"strict,omitempty"`
	// Gates are the gates before the group, then the gates after it.
	Gates []PlannedGate `json:"gates,omitempty"`
	// After are the groups of the stage, by index, that must end before this group begins.
	After []int `json:"after,omitempty"`
	Flow
}

// PlannedGate is a task on one side of a stage or a group.
type PlannedGate struct {
	When approval.When   `json:"when"`
	Type TaskType        `json:"type"`
	Wait metav1.Duration `json:"wait,omitzero"`
	// Policy is set for an Approval.
	Policy approval.Policy `json:"policy,omitzero"`
	// Schedule is set for a ScheduledStart.
	Schedule *Schedule `json:"schedule,omitempty"`
	// Checks is set for a CheckTask.
	Checks []check.Check `json:"checks,omitempty"`
}

// PlannedCluster is a cluster and the revision that it gets.
type PlannedCluster struct {
	Name string
	UID  string
	// Revision is an index into Plan.Revisions; -1 in the removal stage.
	Revision int
	// Cell is an index into the Cells of its stage; 0 if the stage has no cells.
	Cell int
}

// Size is the number of the stage's clusters.
func (s *PlannedStage) Size() (n int) {
	for i := range s.Groups {
		n += s.Groups[i].Len
	}
	return n
}

// StageIndex returns the index of the stage of that name, or -1.
func (p *Plan) StageIndex(name string) int {
	for i := range p.Stages {
		if p.Stages[i].Name == name {
			return i
		}
	}
	return -1
}

// Has reports whether the cluster at pos is one of the group.
func (g *PlannedGroup) Has(pos int) bool { return pos >= g.First && pos < g.First+g.Len }

// PlannedDomain is a failure domain of a stage with its number resolved: the
// clusters that have one value of a label.
type PlannedDomain struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	// Absent reports whether it is the domain of the clusters without the label.
	Absent bool `json:"absent,omitempty"`
	// Clusters is the number of clusters of the domain in the stage.
	Clusters int `json:"clusters"`
	// MaxConcurrency is a number of clusters, at least 1.
	MaxConcurrency int `json:"maxConcurrency"`
}

// String names the domain, for example region=eu.
func (d PlannedDomain) String() string {
	if d.Absent {
		return "those without " + d.Key
	}
	return d.Key + "=" + d.Value
}

// CellMembers are the clusters of a group that have the same domains.
type CellMembers struct {
	// Cell is an index into PlannedStage.Cells.
	Cell int
	// Positions are the positions of the clusters in the plan, ascending.
	Positions []int32
}

// From returns the index of the first member at or after pos.
func (c *CellMembers) From(pos int) int {
	i, _ := slices.BinarySearch(c.Positions, int32(pos))
	return i
}

// PlannedRollback marks the plan of a rollback and identifies the run that it rolls back.
type PlannedRollback struct {
	// Run, UID and Plan are the name, the UID and the plan's digest of that run.
	Run  string `json:"run"`
	UID  string `json:"uid"`
	Plan string `json:"plan"`
	// Indexes are the indexes of the snapshots from which the elements of Plan.Revisions
	// are made. If several snapshots are the same for a cluster, the newest counts.
	Indexes []int `json:"indexes,omitempty"`
	// Kept are the clusters that the run may have changed and that the rollback leaves
	// unchanged, by reason.
	Kept []KeptClusters `json:"kept,omitempty"`
}

// KeptClusters are clusters that a rollback leaves unchanged for one reason.
type KeptClusters struct {
	Reason string `json:"reason"`
	// Count is how many there are, Clusters the first 500 of them by name.
	Count    int      `json:"count"`
	Clusters []string `json:"clusters"`
}

// Len returns the number of clusters, including the clusters to be cleaned.
func (p *Plan) Len() int { return len(p.Clusters) }

// Position returns the position of a cluster; false if the plan has no cluster of that name.
// The plan must come from planner.Plan or [DecodePlan].
func (p *Plan) Position(name string) (int, bool) {
	i, ok := slices.BinarySearchFunc(p.byName, name, func(pos int32, name string) int {
		return cmp.Compare(p.Clusters[pos].Name, name)
	})
	if !ok {
		return 0, false
	}
	return int(p.byName[i]), true
}

// Checks yields every check of the plan, with the name of its stage.
func (p *Plan) Checks() iter.Seq2[string, *check.Check] {
	return func(yield func(string, *check.Check) bool) {
		for i := range p.Stages {
			st := &p.Stages[i]
			lists := [][]check.Check{st.Checks, st.ClusterChecks}
			for j := range st.Gates {
				lists = append(lists, st.Gates[j].Checks)
			}
			for j := range st.Groups {
				for k := range st.Groups[j].Gates {
					lists = append(lists, st.Groups[j].Gates[k].Checks)
				}
			}
			for _, list := range lists {
				for j := range list {
					if !yield(st.Name, &list[j]) {
						return
					}
				}
			}
		}
	}
}

// HasOpened reports whether the gates before the cluster at pos must have opened before the run
// reaches a given gate. If so, the cluster may have the new revision by then. The gate is before or
// after a stage, or before or after one of its groups if group is not -1. Groups of a stage run
// side by side, unless one depends on the other.
func (p *Plan) HasOpened(pos, stage, group int, when approval.When) bool {
	i, g := p.StageOf(pos)
	switch {
	case i != stage:
		return i >= 0 && i < stage
	case group < 0 || g == group:
		return when == approval.After
	}
	return slices.Contains(p.Stages[stage].ancestors(group), g)
}

// ancestors are the groups, as indexes, that a group depends on, also by others.
func (s *PlannedStage) ancestors(group int) []int {
	all := slices.Clone(s.Groups[group].After)
	for i := 0; i < len(all); i++ {
		for _, g := range s.Groups[all[i]].After {
			if !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all
}

// StageOf returns the stage and the group of the cluster at pos, as indexes into p.Stages and
// into the Groups of that stage; -1 and -1 if there is no such position.
func (p *Plan) StageOf(pos int) (stage, group int) {
	if pos < 0 || pos >= len(p.Clusters) {
		return -1, -1
	}
	stage = search(len(p.Stages), func(i int) bool { return p.Stages[i].End() > pos })
	groups := p.Stages[stage].Groups
	return stage, search(len(groups), func(i int) bool { return groups[i].First+groups[i].Len > pos })
}

// search returns the first index below n for which is holds, or n. is must hold for all later
// indexes too.
func search(n int, is func(int) bool) int {
	low := 0
	for low < n {
		if mid := (low + n) / 2; is(mid) {
			n = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// End returns the position behind the stage's last cluster.
func (s *PlannedStage) End() int {
	last := s.Groups[len(s.Groups)-1]
	return last.First + last.Len
}
