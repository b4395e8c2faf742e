package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

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

// clusterState is the state of a cluster's last update. Clusters are listed in the order of these
// states, the worst first.
type clusterState int

const (
	// stateFailed: the update failed, or was not carried out.
	stateFailed clusterState = iota
	// stateHeldBack: an object is not applied because it drifted or belongs to another owner.
	stateHeldBack
	// stateStopped: an update is in flight or waits, and has an obstacle.
	stateStopped
	// stateDrifted: the cluster has drifted.
	stateDrifted
	// stateApplying and stateApplied: an update is in flight.
	stateApplying
	stateApplied
	// stateNotStarted: the cluster waits for its first update, or for the next one.
	stateNotStarted
	// stateAvailable: the cluster was proven to have the snapshot.
	stateAvailable
	states
)

// stateOf returns the state of a cluster, in view of its known drift. It never returns
// stateDrifted: see rank.
func (p *placementBuilder) stateOf(c *PlacedCluster) clusterState {
	if p.unrendered[c.Name] != nil {
		return stateFailed
	}
	if p.isBehind(c) {
		return stateNotStarted
	}
	switch c.State {
	case stages.Failed, stages.Skipped:
		return stateFailed
	case stages.Running, stages.Pending:
		if state := inFlight(c); state == stateApplying || !p.heldBack(c.Name) {
			return state
		}
		return stateHeldBack
	default:
	}
	switch {
	case !c.isReached():
		return stateNotStarted
	case c.Index != c.Tried:
		return stateFailed
	case p.heldBack(c.Name):
		return stateHeldBack
	default:
		return stateAvailable
	}
}

// isBehind reports whether the cluster waits for the rolling update of the latest snapshot.
func (p *placementBuilder) isBehind(c *PlacedCluster) bool { return !p.External && c.Tried < p.Latest }

// isReached reports whether a run has reached the cluster since the policy last changed.
func (c *PlacedCluster) isReached() bool { return c.Tried >= 0 && !c.Unreached }

// isInFlight reports whether an update of the cluster has not ended.
func (c *PlacedCluster) isInFlight() bool {
	return c.State == stages.Running || c.State == stages.Pending
}

// inFlight returns the state of a cluster whose update has not ended. If the cluster is proven to
// have the snapshot of the update, it stays available until the update finds a problem: as in
// KubeFleet, a run that reaches such a cluster again changes none of its conditions.
func inFlight(c *PlacedCluster) clusterState {
	kept := c.Message != "" || c.State == stages.Pending
	switch {
	case !kept && c.Index == c.Tried && len(c.Failing) == 0:
		return stateAvailable
	case c.Applied:
		return stateApplied
	case kept:
		return stateStopped
	default:
		return stateApplying
	}
}

// heldBack reports whether a difference keeps an object of the cluster from being applied.
func (p *placementBuilder) heldBack(cluster string) bool {
	d := p.Drift[cluster]
	return d != nil && !p.reportsOnly() && slices.ContainsFunc(d.Objects, func(o drift.ObjectReport) bool { return p.holds(&o) })
}

// holds reports whether an object's difference keeps it from being applied.
func (p *placementBuilder) holds(o *drift.ObjectReport) bool {
	return o.Reason != drift.FoundDrifts || p.Placement.ApplyStrategy.WhenToApply == apply.IfNotDrifted
}

// isUncompared reports whether a placement that only reports could not compare all objects of a
// cluster. As in KubeFleet, the status then has none of the cluster's differences.
func (p *placementBuilder) isUncompared(cluster string) bool {
	d := p.Drift[cluster]
	return d != nil && p.reportsOnly() && driftOf(p.Placement, d).Conditions[0].Status != metav1.ConditionTrue
}

func driftOf(p *fleet.Placement, d *drift.ClusterReport) v1beta1.PerClusterPlacementStatus {
	return kubefleet.DriftStatuses(*p, []drift.ClusterReport{*d})[0]
}

// withoutFailed returns the drift of a cluster without the objects that are absent because they
// could not be applied. These are failures, not drift.
func withoutFailed(d *drift.ClusterReport, failing []apply.FailingObject) *drift.ClusterReport {
	rest := *d
	rest.Objects = slices.DeleteFunc(slices.Clone(d.Objects), func(o drift.ObjectReport) bool {
		return o.State == drift.Absent && slices.ContainsFunc(failing, func(f apply.FailingObject) bool {
			heldBack := f.Reason == apply.HeldDrifted || f.Reason == apply.HeldForeign
			return !heldBack && f.ID == snapshot.ID{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
		})
	})
	return &rest
}

// listed returns the statuses of the listed clusters, in the order of their ranks, then of their
// names.
func (p *placementBuilder) listed() []v1beta1.PerClusterPlacementStatus {
	limit := p.Listed
	if limit == 0 {
		limit = defaultListed
	}
	var by [states][]*PlacedCluster
	for i := range p.Picked {
		c := &p.Picked[i]
		if g := p.rank(c); len(by[g]) < limit {
			by[g] = append(by[g], c)
		}
	}
	var out []v1beta1.PerClusterPlacementStatus
	for _, clusters := range by {
		for _, c := range clusters[:min(len(clusters), limit-len(out))] {
			out = append(out, p.cluster(c))
		}
	}
	return out
}

// rank returns the state that decides the place of a cluster in the list: its state, or
// stateDrifted or stateStopped if that is worse.
func (p *placementBuilder) rank(c *PlacedCluster) clusterState {
	g := p.stateOf(c)
	if d := p.Drift[c.Name]; g == stateAvailable && d != nil && len(d.Objects) > 0 {
		return stateDrifted
	}
	if g == stateApplied && c.Message != "" {
		return stateStopped
	}
	return g
}

// cluster returns the status of a cluster: its conditions up to the first that is not true, its
// failing objects and its differences.
func (p *placementBuilder) cluster(c *PlacedCluster) v1beta1.PerClusterPlacementStatus {
	at := stages.At(c.Since)
	s := v1beta1.PerClusterPlacementStatus{ClusterName: c.Name, Conditions: []metav1.Condition{
		p.isTrue(api.ConditionScheduled, api.ReasonScheduled, p.pickedMessage(c.Name), stages.At(p.Decided)),
	}}
	switch failure := p.unrendered[c.Name]; {
	case failure != nil:
		s.ObservedResourceIndex = p.shown(p.Latest)
		s.Conditions = append(s.Conditions, p.notRendered(failure)...)
		s.ApplicableClusterResourceOverrides, s.ApplicableResourceOverrides = p.overriding.names(c.Name, p.Latest)
	case !c.isReached() || p.isBehind(c):
		switch {
		case p.isBehind(c):
			s.ObservedResourceIndex = p.shown(p.Latest)
		case c.Unreached:
			s.ObservedResourceIndex = p.shown(c.Tried)
		}
		s.Conditions = append(s.Conditions, p.notTried(c, at))
		return s
	default:
		s.ObservedResourceIndex = p.shown(c.Tried)
		s.Conditions = append(s.Conditions, p.tried(c, at)...)
		s.ApplicableClusterResourceOverrides, s.ApplicableResourceOverrides = p.overriding.names(c.Name, c.Tried)
		p.failures(&s, c, at)
	}
	if d := p.Drift[c.Name]; d != nil {
		s.DifferencesTotal = d.Total
		if !p.isUncompared(c.Name) {
			p.differences(&s, c, driftOf(p.Placement, withoutFailed(d, c.Failing)))
		}
	}
	return s
}

// pickedMessage returns the reason why a cluster was picked, with its scores if the policy is
// PickN.
func (p *placementBuilder) pickedMessage(cluster string) string {
	if p.Decision == nil {
		return fmt.Sprintf("Successfully scheduled resources for placement in %q: %s", cluster, pickedReason)
	}
	v := p.Decision.verdictOf(cluster)
	score := ""
	if p.Decision.Type == placement.PickN {
		score = fmt.Sprintf(" (affinity score: %d, topology spread score: %d)", v.Score.Affinity, v.Score.Spread)
	}
	return fmt.Sprintf("Successfully scheduled resources for placement in %q%s: %s", cluster, score, reasonOf(v, true))
}

// shortfall returns the reason why fewer clusters were picked than the policy wants; empty if none
// is missing.
func (p *placementBuilder) shortfall() string {
	if p.Decision == nil {
		return ""
	}
	return p.Decision.Shortfall
}

// missing returns the statuses of clusters that a PickN policy still wants, or a PickFixed policy
// names, and that were not picked. As in KubeFleet, the name of such a cluster is only in the
// message. There are as many as the policy misses, and at most as many as are listed.
func (p *placementBuilder) missing() []v1beta1.PerClusterPlacementStatus {
	policy := &p.Placement.Policy
	wanted, fixed := len(policy.ClusterNames), policy.Type == placement.PickFixed
	if policy.NumberOfClusters != nil {
		wanted = *policy.NumberOfClusters
	}
	if p.shortfall() == "" || wanted == 0 {
		return nil
	}
	want := min(wanted-len(p.Picked), cmp.Or(p.Listed, defaultListed))
	var out []v1beta1.PerClusterPlacementStatus
	for _, v := range p.Decision.Evaluations {
		if len(out) < want && !v.Picked && (!fixed || slices.Contains(policy.ClusterNames, v.Cluster)) {
			message := fmt.Sprintf("%s is not selected: %s", v.Cluster, reasonOf(v, false))
			out = append(out, v1beta1.PerClusterPlacementStatus{Conditions: []metav1.Condition{p.isFalse(api.ConditionScheduled, api.ReasonScheduleFailed, message, stages.At(p.Decided))}})
		}
	}
	return out
}

// failures adds the failing objects while room lasts: the objects that the update names, and the
// objects that have been held back since the update ended, or since it applied everything and waits
// for availability. The observedGeneration of a condition is the generation of the object on the
// member.
func (p *placementBuilder) failures(s *v1beta1.PerClusterPlacementStatus, c *PlacedCluster, at stages.Instant) {
	state := p.stateOf(c)
	if state >= stateNotStarted { // nothing failed, or the cluster has the last update's snapshot
		return
	}
	told := map[snapshot.ID]bool{}
	add := func(id snapshot.ID, envelope *snapshot.ID, generation int64, condition metav1.Condition) {
		told[id] = true
		condition.ObservedGeneration = generation
		f := v1beta1.FailedResourcePlacement{ResourceIdentifier: kubefleet.ReferenceTo(id, cmp.Or(envelope, p.envelopeOf(c.Tried, id))), Condition: condition}
		if fits(&f, &p.failed) {
			s.FailedPlacements = append(s.FailedPlacements, f)
		}
	}
	named := c.Failing
	if state == stateHeldBack {
		if !c.isInFlight() {
			named = nil // these failures are older than the objects held back
		}
		named = slices.DeleteFunc(slices.Clone(named), func(o apply.FailingObject) bool { return o.Reason == apply.NotHealthy && p.isHeldBack(c.Name, o.ID) })
	}
	for _, o := range named {
		kind, reason := p.failureOf(&o)
		add(o.ID, o.Envelope, max(o.Generation, p.seen(c.Name, o.ID)), p.isFalse(kind, reason, o.Message, at))
	}
	if state != stateHeldBack {
		return
	}
	objects := p.Drift[c.Name].Objects
	for i := range objects[:min(len(objects), heldBackMost)] {
		if o := &objects[i]; p.holds(o) && !told[idOf(o)] {
			add(idOf(o), nil, o.Generation, p.isFalse(api.ConditionApplied, string(o.Reason), heldBackMessage(o), stages.At(o.FirstObserved)))
		}
	}
}

// seen returns the generation of an object in the cluster's drift; 0 if it has not drifted.
func (p *placementBuilder) seen(cluster string, id snapshot.ID) int64 {
	d := p.Drift[cluster]
	if d == nil {
		return 0
	}
	for i := range d.Objects {
		if idOf(&d.Objects[i]) == id {
			return d.Objects[i].Generation
		}
	}
	return 0
}

func idOf(o *drift.ObjectReport) snapshot.ID {
	return snapshot.ID{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// isHeldBack reports whether a difference keeps this object of a cluster from being applied.
func (p *placementBuilder) isHeldBack(cluster string, id snapshot.ID) bool {
	return slices.ContainsFunc(p.Drift[cluster].Objects, func(o drift.ObjectReport) bool { return idOf(&o) == id && p.holds(&o) })
}

// heldBackMost is the maximum number of named objects of a cluster that are held back.
const heldBackMost = 100

// heldBackMessage returns the reason why an object is held back and the remedy. It has the path of
// the first difference, but no value.
func heldBackMessage(o *drift.ObjectReport) string {
	what := ""
	switch o.Reason {
	case drift.FoundDrifts:
		what = "it has drifted and is left alone, because whenToApply is IfNotDrifted: put it back, change it at the hub, or apply Always"
	case drift.NotTakenOver:
		what = "it was there before and is not taken over, because whenToTakeOver is Never: delete it, or let it be taken over"
	default:
		what = "it was there before and differs, and whenToTakeOver is IfNoDiff: make them equal, or take it over Always"
	}
	if len(o.Differences) == 0 {
		return what
	}
	first := &o.Differences[0]
	what += fmt.Sprintf(": %s (%s)", cmp.Or(api.Printable(first.Path, 256), "all of it"), first.Class)
	if more := o.Report.Total - 1; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return what
}

// failureOf returns the condition and KubeFleet's reason for a failing object.
func (p *placementBuilder) failureOf(o *apply.FailingObject) (condition, reason string) {
	switch snapshot.UnplacedReason(o.Reason) {
	case snapshot.Duplicated:
		return api.ConditionApplied, api.ReasonDuplicated
	case snapshot.WrongScope:
		return api.ConditionApplied, api.ReasonWrongScope
	case snapshot.NoName:
	}
	if o.Name == "" {
		return api.ConditionApplied, api.ReasonGenerateName
	}
	switch o.Reason {
	case apply.NoSuchKind:
		return api.ConditionApplied, api.ReasonObjectNotDecoded
	case apply.NotHealthy:
		return api.ConditionAvailable, api.ReasonObjectNotAvailable
	case apply.HeldDrifted:
		return api.ConditionApplied, string(drift.FoundDrifts)
	case apply.HeldForeign:
		if p.Placement.ApplyStrategy.WhenToTakeOver == apply.Never {
			return api.ConditionApplied, string(drift.NotTakenOver)
		}
		return api.ConditionApplied, string(drift.FailedToTakeOver)
	default:
		return api.ConditionApplied, api.ReasonObjectNotApplied
	}
}

// differences adds the differences of a cluster while room lasts.
func (p *placementBuilder) differences(s *v1beta1.PerClusterPlacementStatus, c *PlacedCluster, found v1beta1.PerClusterPlacementStatus) {
	fromEnvelope := func(r *v1beta1.ResourceIdentifier) {
		id := snapshot.ID{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
		*r = kubefleet.ReferenceTo(id, p.envelopeOf(c.Tried, id))
	}
	for _, d := range found.DiffedPlacements {
		fromEnvelope(&d.ResourceIdentifier)
		if fits(&d, &p.room) {
			s.DiffedPlacements = append(s.DiffedPlacements, d)
		}
	}
	for _, d := range found.DriftedPlacements {
		fromEnvelope(&d.ResourceIdentifier)
		if fits(&d, &p.room) {
			s.DriftedPlacements = append(s.DriftedPlacements, d)
		}
	}
}

// fits reports whether room has space for the JSON of d, and subtracts it.
func fits(d any, room *int) bool {
	b, err := json.Marshal(d)
	if err != nil || len(b) > *room {
		return false
	}
	*room -= len(b)
	return true
}

func (p *placementBuilder) notTried(c *PlacedCluster, at stages.Instant) metav1.Condition {
	switch {
	case c.Unreached:
		return p.isUnknown(api.ConditionRollout, api.ReasonRolloutUnknown, "No staged update run has come to the cluster since the policy was changed", max(at, stages.At(p.Decided)))
	case p.External:
		return p.isUnknown(api.ConditionRollout, api.ReasonRolloutUnknown, "No staged update run has come to the cluster yet", at)
	}
	message := "The rollout has not come to the cluster yet"
	if c.Tried >= 0 {
		message += ", which has " + p.had(c)
	}
	return p.isFalse(api.ConditionRollout, api.ReasonRolloutNotStarted, message, max(at, stages.At(p.Taken)))
}

// notRendered returns the conditions of a cluster whose overrides of the latest snapshot cannot be
// rendered. As in KubeFleet, its rollout has started and is stuck at the overrides.
func (p *placementBuilder) notRendered(f *placement.RenderError) []metav1.Condition {
	at := stages.At(p.Taken)
	out := []metav1.Condition{p.isTrue(api.ConditionRollout, api.ReasonRolloutStarted, p.startedMessage(p.Latest), at)}
	message := fmt.Sprintf("%s: %v", f.Object, f.Err)
	if !f.Invalid {
		return append(out, p.isFalse(api.ConditionOverridden, api.ReasonOverrideFailed, "The overrides cannot be applied: "+message, at))
	}
	return append(out, p.overridden("", true, at),
		p.isFalse(api.ConditionSynchronized, api.ReasonWorkNotSynced, "What the overrides make of the resources is not valid: "+message, at))
}

func (p *placementBuilder) startedMessage(index int) string {
	return "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: " + p.shown(index)
}

func (p *placementBuilder) tried(c *PlacedCluster, at stages.Instant) []metav1.Condition {
	started := p.startedMessage(c.Tried)
	if c.Run != "" {
		started += ", updateRun: " + c.Run
	}
	out := []metav1.Condition{
		p.isTrue(api.ConditionRollout, api.ReasonRolloutStarted, started, at),
		p.overridden("", p.overriding.changes(c.Name, c.Tried), at),
		p.isTrue(api.ConditionSynchronized, api.ReasonWorkSynced, "All of the resources are ready to be applied", at),
	}
	if p.reportsOnly() {
		return append(out, p.compared(c, at))
	}
	return append(out, p.carriedOut(c, at)...)
}

func (p *placementBuilder) carriedOut(c *PlacedCluster, at stages.Instant) []metav1.Condition {
	applied := p.isTrue(api.ConditionApplied, api.ReasonWorkApplied, "All resources have been applied", at)
	switch p.stateOf(c) {
	case stateAvailable:
		reason, message := p.availability(c.Tried)
		return []metav1.Condition{applied, p.isTrue(api.ConditionAvailable, reason, message, at)}
	case stateApplied:
		return []metav1.Condition{applied, p.isFalse(api.ConditionAvailable, api.ReasonWorkNotAvailable, cmp.Or(c.Message, "Not all resources have been proven available yet"), at)}
	case stateHeldBack:
		found := driftOf(p.Placement, p.Drift[c.Name])
		return []metav1.Condition{p.isFalse(api.ConditionApplied, found.Conditions[0].Reason, found.Conditions[0].Message, firstDiffer(p.Drift[c.Name]))}
	case stateApplying:
		return []metav1.Condition{p.isFalse(api.ConditionApplied, api.ReasonWorkApplying, "Resources are being applied", at)}
	default:
		if c.Applied {
			return []metav1.Condition{applied, p.isFalse(api.ConditionAvailable, api.ReasonWorkNotAvailable, cmp.Or(c.Message, p.unfinished(c)), at)}
		}
		return []metav1.Condition{p.isFalse(api.ConditionApplied, api.ReasonWorkNotApplied, cmp.Or(c.Message, p.unfinished(c)), at)}
	}
}

// unfinished returns the message for a cluster whose last update did not complete and gave no
// reason.
func (p *placementBuilder) unfinished(c *PlacedCluster) string {
	had := p.had(c)
	if c.Index >= 0 && c.Index != c.Tried && p.shown(c.Index) == p.shown(c.Tried) {
		had = "it with the overrides before"
	}
	return fmt.Sprintf("The update to snapshot %s did not complete; the cluster was last proven to have %s", p.shown(c.Tried), had)
}

// had returns the text for the snapshot that a cluster was last proven to have.
func (p *placementBuilder) had(c *PlacedCluster) string {
	if c.Index < 0 {
		return "none"
	}
	return "snapshot " + p.shown(c.Index)
}

// firstDiffer returns when the earliest difference of the cluster was first observed.
func firstDiffer(d *drift.ClusterReport) (at stages.Instant) {
	for i := range d.Objects {
		if t := stages.At(d.Objects[i].FirstObserved); at == 0 || t < at {
			at = t
		}
	}
	return at
}

// compared returns the condition DiffReported of a cluster, for a placement that only reports.
func (p *placementBuilder) compared(c *PlacedCluster, at stages.Instant) metav1.Condition {
	if d := p.Drift[c.Name]; d != nil {
		found := driftOf(p.Placement, d).Conditions[0]
		return p.condition(api.ConditionDiffReported, found.Status, found.Reason, found.Message, at)
	}
	if p.stateOf(c) == stateAvailable {
		return p.isTrue(api.ConditionDiffReported, api.ReasonWorkDiffReported, "0 objects differ", at)
	}
	return p.isFalse(api.ConditionDiffReported, api.ReasonWorkNotReported, cmp.Or(c.Message, "The resources have not been compared yet"), at)
}
