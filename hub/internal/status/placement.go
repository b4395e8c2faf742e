package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

const (
	// shownResources is the maximum number of selected resources in the status of a placement.
	shownResources = 1000
	// shownDifferences limits the JSON about differences in a status, and shownFailures the JSON
	// about failing objects, in bytes. The clusters that are listed first use them first.
	shownDifferences = 256 << 10
	shownFailures    = 64 << 10
)

// PlacementFacts are the input of [Placement].
type PlacementFacts struct {
	// Namespace, Generation and Created are fields of the placement's object.
	Namespace  string
	Generation int64
	Created    time.Time
	// Placement is the declared placement. External reports whether staged runs roll it out instead
	// of the hub.
	Placement *fleet.Placement
	External  bool

	// Unselected is the selector error, Unscheduled the scheduling error; nil if there is none.
	Unselected, Unscheduled error
	// Scheduled reports whether clusters were picked, and Decided when. Picked are the picked
	// clusters, ascending by name.
	Scheduled bool
	Decided   time.Time
	Picked    []PlacedCluster
	// Decision explains the pick; nil if there is no explanation.
	Decision *Selection
	// Omitted is everything that the last capture left out.
	Omitted []snapshot.Omission
	// Latest is the index of the latest snapshot, -1 for none.
	Latest int
	// Taken is when the latest snapshot was taken. Unrendered has an error for each cluster whose
	// overrides cannot be rendered. While it has an error, no cluster gets the snapshot. AtATime is
	// the number of clusters with an earlier snapshot that the update would start at first.
	Taken      time.Time
	Unrendered []*placement.RenderError
	AtATime    int
	// Resources returns the items of the snapshot of an index, with their envelopes. It may be nil,
	// and may return none. Snapshots are the kept snapshots, ascending.
	Resources func(index int) []snapshot.Item
	Snapshots []snapshot.Snapshot
	// Drift holds the known differences by cluster. It omits clusters without a comparison.
	Drift map[string]*drift.ClusterReport
	// Overrides are the overrides in the snapshots that clusters were tried with, by index. Members
	// are the clusters with their current labels, by name. Both are nil if there are no overrides.
	Overrides map[int][]FrozenOverride
	Members   map[string]placement.Cluster
	// Deletion is the progress of the deletion; nil unless the placement is being deleted.
	Deletion *v1beta1.PlacementDeletionStatus
	// Listed is the maximum number of listed clusters; 0 is defaultListed.
	Listed int
}

// PlacedCluster is the state of a placement on a cluster that was picked.
type PlacedCluster struct {
	Name string
	// Index is the index of the last snapshot that the cluster was proven to have, Tried the index
	// of the last snapshot that a run started to bring to it; -1 for none.
	Index, Tried int
	// Unreached reports whether the placement's policy has changed since a run last reached the
	// cluster. The cluster has the snapshot of that run.
	Unreached bool
	// State is Running while an update is in flight, Pending while the update waits for a retry,
	// Failed or Skipped if the last update did not complete, and otherwise Completed or empty.
	State stages.State
	// Applied reports whether an unfinished update has applied everything.
	Applied bool
	// Run is the object of the last run that reached the cluster; empty if unknown.
	Run string
	// Message is the obstacle or the reason of the failure.
	Message string
	// Since is when this state began.
	Since time.Time
	// Failing are the objects that are not in their desired state, if known.
	Failing []apply.FailingObject
}

// Placement returns the status of a placement. The time that it takes grows with the number of
// picked clusters, but only listed clusters allocate memory.
func Placement(f *PlacementFacts) *v1beta1.PlacementStatus {
	p := placementBuilder{
		PlacementFacts: f, prefix: api.Scope(f.Namespace != "").Kind(api.PlacementKind),
		conditions: conditions{observedGeneration: f.Generation, created: max(stages.At(f.Created), 1)}, room: shownDifferences, failed: shownFailures,
		overriding: newOverriding(f.Overrides, f.Members), unrendered: map[string]*placement.RenderError{},
		shownSnapshots: shownSnapshots{
			kept: f.Snapshots, items: f.Resources, enveloped: map[int]map[snapshot.ID]*snapshot.ID{}, untracked: map[int]bool{},
		},
	}
	p.addUnrendered()
	s := &v1beta1.PlacementStatus{Conditions: []metav1.Condition{p.scheduled()}, Deletion: f.Deletion}
	s.PerClusterPlacementStatuses, s.PlacementStatusesTotal = append(p.listed(), p.missing()...), len(f.Picked)
	if index, ok := p.observed(); ok {
		s.ObservedResourceIndex = p.shown(index)
		s.SelectedResources, s.SelectedResourcesTotal = p.resources(index)
		s.Conditions = append(s.Conditions, p.aggregate(index)...)
	} else if len(f.Picked) == 0 && f.Latest >= 0 {
		s.ObservedResourceIndex = p.shown(f.Latest)
		s.SelectedResources, s.SelectedResourcesTotal = p.resources(f.Latest)
	} else if f.External && f.Scheduled && len(f.Picked) > 0 {
		why := "and none has come to a cluster yet"
		if slices.ContainsFunc(f.Picked, func(c PlacedCluster) bool { return c.Tried >= 0 }) {
			why = "and not all clusters observe the same snapshot"
		}
		s.Conditions = append(s.Conditions, p.controlled(why, p.lastChange()))
	}
	return s
}

// addUnrendered fills unrendered with the clusters that the update would reach, as in KubeFleet:
// all clusters without a snapshot, and as many of the others as are updated at a time.
func (p *placementBuilder) addUnrendered() {
	if len(p.Unrendered) == 0 {
		return
	}
	updated := map[string]bool{}
	for i := range p.Picked {
		updated[p.Picked[i].Name] = p.Picked[i].Tried >= 0
	}
	others := 0
	for _, failure := range p.Unrendered {
		if updated[failure.Cluster] {
			if others++; others > p.AtATime {
				continue
			}
		}
		p.unrendered[failure.Cluster] = failure
	}
}

// controlled returns the condition of an External placement whose rollout state is unknown.
func (p *placementBuilder) controlled(why string, at stages.Instant) metav1.Condition {
	return p.isUnknown(p.prefix+api.ConditionRollout, api.ReasonExternal, "Rollout is controlled by staged update runs, "+why, at)
}

// placementBuilder builds the status of a placement.
type placementBuilder struct {
	*PlacementFacts
	conditions
	shownSnapshots
	// prefix is the prefix of the types of the placement's conditions.
	prefix string
	// room is the number of bytes left for differences, failed the number of bytes left for
	// failures.
	room, failed int
	// overriding has the overrides in the snapshots that clusters were tried with.
	overriding overriding
	// unrendered are the clusters of the fact Unrendered that the update would reach.
	unrendered map[string]*placement.RenderError
}

func (p *placementBuilder) scheduled() metav1.Condition {
	kind, at := p.prefix+api.ConditionScheduled, stages.At(p.Decided)
	switch {
	case p.Unselected != nil:
		return p.isFalse(kind, api.ReasonInvalidSelectors, p.Unselected.Error(), at)
	case p.Unscheduled != nil:
		return p.isFalse(kind, api.ReasonUnfulfilled, p.Unscheduled.Error(), at)
	case p.Placement.Policy.Type == placement.PickFixed && len(p.Placement.Policy.ClusterNames) == 0 && p.Scheduled:
		return p.isUnknown(kind, api.ReasonSchedulePending, "The policy names no cluster, so there is nothing to schedule", at) // as in KubeFleet
	case p.shortfall() != "":
		return p.isFalse(kind, api.ReasonUnfulfilled, unfulfilledMessage(p.shortfall()), at)
	case !p.Scheduled:
		return p.isUnknown(kind, api.ReasonSchedulePending, "Scheduling has not completed", at)
	default:
		return p.isTrue(kind, api.ReasonFulfilled, scheduledMessage(len(p.Picked))+LeftOut(p.Omitted), at)
	}
}

// LeftOut returns a sentence about the unexpected omissions of a capture; empty if there are none.
func LeftOut(all []snapshot.Omission) string {
	told, expected := snapshot.OmissionsTold(all)
	if len(told) == 0 {
		return ""
	}
	out := ". " + strings.Join(told, ". ")
	if expected > 0 {
		out += fmt.Sprintf(". Also left out: objects that every cluster makes by itself or that are being deleted (%d)", expected)
	}
	return api.Printable(out, leftOutMost)
}

// leftOutMost limits the sentence about omissions, in bytes.
const leftOutMost = 2000

// observed returns the index of the snapshot that the placement's conditions are about. For an
// External placement it is the latest snapshot that clusters were tried with; there is none while
// these snapshots differ in more than overrides.
func (p *placementBuilder) observed() (int, bool) {
	switch {
	case len(p.Picked) == 0 || !p.Scheduled:
		return 0, false
	case !p.External:
		return p.Latest, p.Latest >= 0
	}
	last := p.Picked[0].Tried
	for i := range p.Picked {
		if p.Picked[i].Tried < 0 || p.shown(p.Picked[i].Tried) != p.shown(p.Picked[0].Tried) {
			return 0, false
		}
		last = max(last, p.Picked[i].Tried)
	}
	return last, true
}

// tally counts clusters by their progress with a snapshot. If a snapshot cannot be rendered for a
// cluster, the cluster counts as started, and as unoverridden or invalid.
type tally struct{ started, unoverridden, invalid, applied, available, failed int }

func (p *placementBuilder) tally(index int) (t tally) {
	for i := range p.Picked {
		c := &p.Picked[i]
		failure := p.unrendered[c.Name]
		has := c.Tried == index || p.External && p.shown(c.Tried) == p.shown(index)
		if (!has || c.Unreached) && failure == nil {
			continue
		}
		t.started++
		switch {
		case failure == nil:
		case failure.Invalid:
			t.invalid++
			continue
		default:
			t.unoverridden++
			continue
		}
		switch g := p.stateOf(c); {
		case g >= stateAvailable && p.isUncompared(c.Name):
		case g >= stateAvailable:
			t.available++
			t.applied++
		case g == stateApplied:
			t.applied++
		case g == stateFailed || g == stateHeldBack || g == stateStopped && isRefused(c):
			t.failed++
		}
	}
	return t
}

// isRefused reports whether objects of a cluster are held back or were refused. An object that is
// only not healthy yet does not count.
func isRefused(c *PlacedCluster) bool {
	return slices.ContainsFunc(c.Failing, func(o apply.FailingObject) bool { return o.Reason != apply.NotHealthy })
}

// aggregate returns the conditions of the placement about a snapshot, for all clusters together, up
// to the first condition that is not true.
func (p *placementBuilder) aggregate(index int) []metav1.Condition {
	t, n, at := p.tally(index), len(p.Picked), p.lastChange()
	if t.started < n && p.External {
		return []metav1.Condition{p.controlled(fmt.Sprintf("and none has come to %d cluster(s) since the policy was changed", n-t.started), at)}
	}
	if t.started < n {
		message := fmt.Sprintf("The rollout has not come to %d cluster(s) yet", n-t.started)
		if failed := len(p.unrendered); failed > 0 {
			message += fmt.Sprintf(": it begins once overrides can be carried out on %d other(s), please check `placementStatuses`", failed)
		}
		return []metav1.Condition{p.isFalse(p.prefix+api.ConditionRollout, api.ReasonRolloutNotStarted, message, at)}
	}
	out := []metav1.Condition{p.isTrue(p.prefix+api.ConditionRollout, api.ReasonRolloutStarted, fmt.Sprintf("All %d cluster(s) start rolling out the latest resource", n), at)}
	if t.unoverridden > 0 {
		return append(out, p.isFalse(p.prefix+api.ConditionOverridden, api.ReasonOverrideFailed,
			fmt.Sprintf("Overrides cannot be carried out on %d cluster(s), please check `placementStatuses`", t.unoverridden), at))
	}
	out = append(out, p.overridden(p.prefix, p.changed(), at))
	if t.invalid > 0 {
		return append(out, p.isFalse(p.prefix+api.ConditionSynchronized, api.ReasonNotSynchronized,
			fmt.Sprintf("What overrides make of the resources is not valid on %d cluster(s), please check `placementStatuses`", t.invalid), at))
	}
	out = append(out, p.isTrue(p.prefix+api.ConditionSynchronized, api.ReasonSynchronized, fmt.Sprintf("The resources of %d cluster(s) are ready to be applied", n), at))
	if p.reportsOnly() {
		return append(out, p.reported(t.available, n, at))
	}
	out = append(out, p.applied(t, n, at))
	if t.applied < n {
		return out
	}
	if t.available < n {
		return append(out, p.isFalse(p.prefix+api.ConditionAvailable, api.ReasonNotAvailable,
			fmt.Sprintf("The selected resources in %d cluster(s) are still not available yet", n-t.available), at))
	}
	return append(out, p.isTrue(p.prefix+api.ConditionAvailable, api.ReasonAvailable,
		fmt.Sprintf("The selected resources in %d cluster(s) are available now", n), at))
}

// changed reports whether an override changes an object on a picked cluster.
func (p *placementBuilder) changed() bool {
	return slices.ContainsFunc(p.Picked, func(c PlacedCluster) bool {
		return p.unrendered[c.Name] != nil || p.overriding.changes(c.Name, c.Tried)
	})
}

func (p *placementBuilder) overridden(prefix string, changed bool, at stages.Instant) metav1.Condition {
	if !changed {
		return p.isTrue(prefix+api.ConditionOverridden, api.ReasonNoOverride, "No override rules are configured for the selected resources", at)
	}
	return p.isTrue(prefix+api.ConditionOverridden, api.ReasonOverridden, "The overrides are applied to the resources", at)
}

func (p *placementBuilder) applied(t tally, n int, at stages.Instant) metav1.Condition {
	kind := p.prefix + api.ConditionApplied
	switch {
	case t.applied == n:
		return p.isTrue(kind, api.ReasonApplySucceeded, fmt.Sprintf("The selected resources are successfully applied to %d cluster(s)", n), at)
	case t.failed > 0:
		return p.isFalse(kind, api.ReasonApplyFailed, fmt.Sprintf("Failed to apply resources to %d cluster(s), please check `placementStatuses`", t.failed), at)
	default:
		return p.isUnknown(kind, api.ReasonApplyPending, fmt.Sprintf("The selected resources are being applied to %d cluster(s)", n-t.applied), at)
	}
}

func (p *placementBuilder) reported(done, n int, at stages.Instant) metav1.Condition {
	kind := p.prefix + api.ConditionDiffReported
	if done == n {
		return p.isTrue(kind, api.ReasonDiffReported, fmt.Sprintf("Diff reporting in %d cluster(s) has been completed", n), at)
	}
	return p.isFalse(kind, api.ReasonDiffNotReported, fmt.Sprintf("Diff reporting in %d cluster(s) is not complete", n-done), at)
}

func (p *placementBuilder) reportsOnly() bool {
	return p.Placement.ApplyStrategy.Type == apply.ReportDiff
}

// lastChange returns the time of the latest change of a cluster.
func (p *placementBuilder) lastChange() stages.Instant {
	at := stages.At(p.Decided)
	if len(p.unrendered) > 0 {
		at = max(at, stages.At(p.Taken))
	}
	for i := range p.Picked {
		at = max(at, stages.At(p.Picked[i].Since))
	}
	return cmp.Or(at, p.created)
}
