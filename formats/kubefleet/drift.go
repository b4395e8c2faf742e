package kubefleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
)

// ReferenceTo returns the reference of a status to an object, and to the envelope that contained
// it. envelope is nil if there was none.
func ReferenceTo(id snapshot.ID, envelope *snapshot.ID) v1beta1.ResourceIdentifier {
	r := v1beta1.ResourceIdentifier{Group: id.Group, Version: id.Version, Kind: id.Kind, Name: id.Name, Namespace: id.Namespace}
	if envelope != nil {
		r.Envelope = &v1beta1.EnvelopeIdentifier{Name: envelope.Name, Namespace: envelope.Namespace, Type: v1beta1.EnvelopeType(envelope.Kind)}
	}
	return r
}

// wholeObject is the value of the difference if a cluster does not have the object.
const wholeObject = "(the whole object)"

// placementsMost is the maximum number of objects of a cluster that a status names.
const placementsMost = 100

// DriftStatuses returns the differences on clusters as status.placementStatuses of their placement,
// ascending by name. Each cluster has one condition with KubeFleet's reasons. If the placement only
// reports, the condition is DiffReported, which is true once everything was compared, with or
// without differences. Otherwise the condition is Applied, which is false if the cluster was not
// compared, or if an object was not applied because it drifted or must not be taken over. The
// status of a cluster without differences has nothing but the condition.
func DriftStatuses(p fleet.Placement, all []drift.ClusterReport) []v1beta1.PerClusterPlacementStatus {
	out := make([]v1beta1.PerClusterPlacementStatus, 0, len(all))
	for i := range all {
		c := &all[i]
		s := v1beta1.PerClusterPlacementStatus{ClusterName: c.Cluster, Conditions: []metav1.Condition{conditionOf(&p.ApplyStrategy, c)}}
		for j := range c.Objects[:min(len(c.Objects), placementsMost)] {
			addDifference(&s, &c.Objects[j])
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b v1beta1.PerClusterPlacementStatus) int { return cmp.Compare(a.ClusterName, b.ClusterName) })
	return out
}

// addDifference adds an object that differs.
func addDifference(s *v1beta1.PerClusterPlacementStatus, o *drift.ObjectReport) {
	ref := ReferenceTo(snapshot.ID{Group: o.Group, Version: o.Version, Kind: o.Kind, Name: o.Name, Namespace: o.Namespace}, nil)
	first, now, details := seconds(o.FirstObserved), seconds(o.Observed), detailsOf(&o.Report)
	switch {
	case o.Reason == drift.FoundDrifts:
		s.DriftedPlacements = append(s.DriftedPlacements, v1beta1.DriftedResourcePlacement{
			ResourceIdentifier: ref, FirstDriftedObservedTime: first, ObservationTime: now, ObservedDrifts: details,
			TargetClusterObservedGeneration: o.Generation,
		})
	case o.State == drift.Absent:
		whole := wholeObject
		s.DiffedPlacements = append(s.DiffedPlacements, v1beta1.DiffedResourcePlacement{
			ResourceIdentifier: ref, FirstDiffedObservedTime: first, ObservationTime: now,
			ObservedDiffs: []v1beta1.PatchDetail{{Path: "/", ValueInHub: &whole}},
		})
	default:
		s.DiffedPlacements = append(s.DiffedPlacements, v1beta1.DiffedResourcePlacement{
			ResourceIdentifier: ref, FirstDiffedObservedTime: first, ObservationTime: now, ObservedDiffs: details,
			TargetClusterObservedGeneration: &o.Generation,
		})
	}
}

func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

func detailsOf(r *drift.Report) []v1beta1.PatchDetail {
	out := make([]v1beta1.PatchDetail, len(r.Differences))
	for i := range r.Differences {
		d := &r.Differences[i]
		out[i] = v1beta1.PatchDetail{Path: d.Path, ValueInHub: plainValue(d.Hub), ValueInMember: plainValue(d.Member)}
	}
	return out
}

// plainValue converts a JSON value for the status: a string without quotes, everything else as
// JSON.
func plainValue(v json.RawMessage) *string {
	if len(v) == 0 {
		return nil
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		s = string(v)
	}
	return &s
}

// conditionOf returns the condition of a cluster.
func conditionOf(s *apply.Strategy, c *drift.ClusterReport) metav1.Condition {
	out := metav1.Condition{LastTransitionTime: seconds(c.Observed)}
	compared := c.State == drift.Compared && len(c.Problems) == 0
	if s.Type == apply.ReportDiff {
		out.Type = "DiffReported"
		out.Status, out.Reason = status(compared, "AllWorkHaveDiffReported", "NotAllWorkHaveDiffReported")
		out.Message = fmt.Sprintf("%d objects differ", c.Total)
		return withProblems(out, c)
	}
	out.Type = "Applied"
	held := c.State != drift.Compared || heldBack(s, c)
	out.Status, out.Reason = status(!held, "AllWorkHaveBeenApplied", "NotAllWorkHaveBeenApplied")
	out.Message = fmt.Sprintf("%d objects have drifted or differ", c.Total)
	return withProblems(out, c)
}

// heldBack reports whether an object was not applied because it differs.
func heldBack(s *apply.Strategy, c *drift.ClusterReport) bool {
	return slices.ContainsFunc(c.Objects, func(o drift.ObjectReport) bool {
		return o.Reason != drift.FoundDrifts || s.WhenToApply == apply.IfNotDrifted
	})
}

func status(ok bool, yes, no string) (metav1.ConditionStatus, string) {
	if ok {
		return metav1.ConditionTrue, yes
	}
	return metav1.ConditionFalse, no
}

func withProblems(c metav1.Condition, of *drift.ClusterReport) metav1.Condition {
	if len(of.Problems) > 0 {
		c.Message += "; " + of.Problems[0]
	}
	return c
}
