package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

const (
	// shownResources is how many selected resources a placement's status names.
	shownResources = 1000
	// shownDifferences is how much JSON it tells of differences, in bytes, those
	// of the clusters that are listed first, and shownFailures of objects that fail.
	shownDifferences = 256 << 10
	shownFailures    = 64 << 10
)

// PlacementFacts are what the status of a placement is made of.
type PlacementFacts struct {
	// Namespace, Generation and Created are those of the object.
	Namespace  string
	Generation int64
	Created    time.Time
	// Placement is what was declared. External says that staged runs roll it
	// out, rather than the hub itself.
	Placement *fleet.Placement
	External  bool

	// Unselected is what is wrong with what is selected, Unscheduled with where it
	// is to go; nil where nothing is.
	Unselected, Unscheduled error
	// Scheduled reports whether clusters were picked, Decided when. Picked are those
	// that were, ascending by name.
	Scheduled bool
	Decided   time.Time
	Picked    []PlacedCluster
	// Decision explains that; nil where nothing does.
	Decision *Selection
	// Omitted is what the last capture left out.
	Omitted []snapshot.Omission
	// Latest is the index of the latest snapshot, -1 for none.
	Latest int
	// Taken is when the latest snapshot was taken, Unrendered why its overrides cannot be carried out for clusters:
	// it is brought to none as long as there is such a cluster. AtATime is how many clusters that have something the
	// update would begin with.
	Taken      time.Time
	Unrendered []*placement.RenderError
	AtATime    int
	// Resources are the items of a snapshot by its index, with the envelopes that they came in; the caller may
	// answer none. Snapshots are those that are kept, ascending.
	Resources func(index int) []snapshot.Item
	Snapshots []snapshot.Snapshot
	// Drift is what is known of differences, by cluster; clusters of which nothing
	// is known are missing.
	Drift map[string]*drift.ClusterReport
	// Overrides are those in the snapshots that clusters were tried with, by index,
	// Members the clusters as they are now, by name; nil where there are none.
	Overrides map[int][]FrozenOverride
	Members   map[string]placement.Cluster
	// Deletion is set while the placement is being deleted.
	Deletion *v1beta1.PlacementDeletionStatus
	// Listed is how many clusters are listed at most; 0 is defaultListed.
	Listed int
}

// PlacedCluster is what a cluster that was picked has of a placement.
type PlacedCluster struct {
	Name string
	// Index is that of the snapshot it was last proven to have, Tried of the one
	// that a run last began to bring to it; -1 for none.
	Index, Tried int
	// Unreached reports that the placement's policy was changed since a run last came to the cluster, which has what that
	// run brought.
	Unreached bool
	// State is Running while an update is in flight, Pending while it waits to be
	// tried again, Failed or Skipped where the last one did not complete, and
	// Completed or empty otherwise.
	State stages.State
	// Applied tells of an update that is not done that everything was applied.
	Applied bool
	// Run is the object of the run that last came to it, "" where that is not
	// known.
	Run string
	// Message says what keeps it, or why it failed.
	Message string
	// Since is since when it is so.
	Since time.Time
	// Failing are the objects that are not as they are to be, as far as that is known.
	Failing []apply.FailingObject
}

// Placement is the status of a placement. Its cost grows with the clusters
// that were picked, but only those that are listed cost an allocation.
func Placement(f *PlacementFacts) *v1beta1.PlacementStatus {
	p := placementBuilder{
		PlacementFacts: f, prefix: api.Scope(f.Namespace != "").Kind(api.PlacementKind),
		conditions: conditions{observedGeneration: f.Generation, created: max(stages.At(f.Created), 1)}, room: shownDifferences, failed: shownFailures,
		overriding: newOverriding(f.Overrides, f.Members), unrendered: map[string]*placement.RenderError{},
		enveloped: map[int]map[snapshot.ID]*snapshot.ID{}, untracked: map[int]bool{},
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

// addUnrendered adds the clusters for which the latest snapshot cannot be rendered, as far as its update would come, as in
// KubeFleet: to all that have nothing yet, and to as many of the others as are updated at a time.
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

// controlled says of an External placement that it is not known whether it is rolled out.
func (p *placementBuilder) controlled(why string, at stages.Instant) metav1.Condition {
	return p.isUnknown(p.prefix+api.ConditionRollout, api.ReasonExternal, "Rollout is controlled by staged update runs, "+why, at)
}

// placementBuilder is a placement that is being projected.
type placementBuilder struct {
	*PlacementFacts
	conditions
	// prefix is what the types of the placement's conditions begin with.
	prefix string
	// room is how many bytes of differences may still be told, failed of failures.
	room, failed int
	// overriding is what the snapshots that clusters were tried with have for them.
	overriding overriding
	// unrendered are the facts' by cluster.
	unrendered map[string]*placement.RenderError
	// enveloped are the envelopes that objects came in, by the index of a snapshot and the object without version.
	enveloped map[int]map[snapshot.ID]*snapshot.ID
	// untracked says of the index of a snapshot whether it has objects whose availability KubeFleet does not track.
	untracked map[int]bool
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

// LeftOut says what a capture left out that not everybody expects, empty for nothing.
func LeftOut(all []snapshot.Omission) string {
	told, expected := snapshot.OmissionsTold(all)
	if len(told) == 0 {
		return ""
	}
	out := ". " + strings.Join(told, ". ")
	if expected > 0 {
		out += fmt.Sprintf(". %d more that every cluster makes by itself, or that are being deleted", expected)
	}
	return api.Printable(out, leftOutMost)
}

// leftOutMost bounds the text about what is left out, in bytes.
const leftOutMost = 2000

// shown is how the index of a snapshot is shown.
func (p *placementBuilder) shown(index int) string {
	return strconv.Itoa(ShownIndex(p.Snapshots, index))
}

// observed is the index of the snapshot that the placement's conditions are
// about. Under External it is the last one that clusters have or are brought to, and
// there is none while they differ in more than overrides.
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

// resources are what is selected by a snapshot: an envelope instead of what is in it.
func (p *placementBuilder) resources(index int) ([]v1beta1.ResourceIdentifier, int) {
	if p.Resources == nil {
		return nil, 0
	}
	items := p.Resources(index)
	ids := make([]snapshot.ID, 0, len(items))
	opened := map[snapshot.ID]bool{}
	for i := range items {
		if envelope := items[i].Envelope; envelope != nil {
			opened[shownEnvelope(*envelope)] = true
		} else {
			ids = append(ids, items[i].ID)
		}
	}
	if s := p.snapshot(index); s != nil {
		for _, u := range s.Unplaced {
			opened[shownEnvelope(u.Envelope)] = true
		}
	}
	if len(opened) > 0 {
		ids = slices.AppendSeq(ids, maps.Keys(opened))
		slices.SortFunc(ids, snapshot.ID.Compare)
	}
	out := make([]v1beta1.ResourceIdentifier, min(len(ids), shownResources))
	for i := range out {
		out[i] = kubefleet.ReferenceTo(ids[i], nil)
	}
	return out, len(ids)
}

// shownEnvelope is how an envelope is selected in KubeFleet, which has one version of them; a hub serves them in two.
func shownEnvelope(id snapshot.ID) snapshot.ID {
	id.Version = api.Version
	return id
}

// snapshot returns the snapshot of an index, nil where it is not kept.
func (p *placementBuilder) snapshot(index int) *snapshot.Snapshot {
	return snapshotAt(p.Snapshots, index)
}

// envelopeOf returns the envelope that an object of a snapshot came in, nil for none or where that is not known.
func (p *placementBuilder) envelopeOf(index int, id snapshot.ID) *snapshot.ID {
	s := p.snapshot(index)
	if s == nil || s.Origins == "" || p.Resources == nil {
		return nil
	}
	if p.enveloped[index] == nil {
		in := map[snapshot.ID]*snapshot.ID{}
		for _, item := range p.Resources(index) {
			if item.Envelope != nil {
				item.Version = ""
				in[item.ID] = item.Envelope
			}
		}
		p.enveloped[index] = in
	}
	id.Version = ""
	return p.enveloped[index][id]
}

// tally counts clusters by how far they have come with a snapshot; those for which it cannot be rendered
// have started, and are in unoverridden or in invalid.
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

// isRefused reports whether objects of a cluster are held back or were refused, and not only late.
func isRefused(c *PlacedCluster) bool {
	return slices.ContainsFunc(c.Failing, func(o apply.FailingObject) bool { return o.Reason != apply.NotHealthy })
}

// aggregate are the conditions of the placement about a snapshot, as far as all
// clusters have come: the first that is not true is the last.
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

// changed reports whether an override changes anything for one of the clusters.
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

// lastChange is when the last of the clusters changed.
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
