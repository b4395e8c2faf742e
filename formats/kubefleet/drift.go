package kubefleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
)

// ClusterStatus is one element of status.placementStatuses of a
// ClusterResourcePlacement, as far as it is about drift.
type ClusterStatus struct {
	ClusterName       string             `json:"clusterName"`
	Conditions        []metav1.Condition `json:"conditions,omitempty"`
	DiffedPlacements  []DiffedPlacement  `json:"diffedPlacements,omitempty"`
	DriftedPlacements []DriftedPlacement `json:"driftedPlacements,omitempty"`
}

// ObjectReference names an object of a placement.
type ObjectReference struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// Envelope is the envelope that it came in, nil for none.
	Envelope *EnvelopeReference `json:"envelope,omitempty"`
}

// EnvelopeReference names an envelope; Type is its kind.
type EnvelopeReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Type      string `json:"type"`
}

// ReferenceTo returns how a status names an object that came in an envelope, nil for none.
func ReferenceTo(id snapshot.ID, envelope *snapshot.ID) ObjectReference {
	r := ObjectReference{Group: id.Group, Version: id.Version, Kind: id.Kind, Name: id.Name, Namespace: id.Namespace}
	if envelope != nil {
		r.Envelope = &EnvelopeReference{Name: envelope.Name, Namespace: envelope.Namespace, Type: envelope.Kind}
	}
	return r
}

// NamespacedName names an object of a known kind.
type NamespacedName struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// DiffedPlacement is an object that differs and is not the placement's on the
// cluster: the placement only reports, or may not take the object over.
type DiffedPlacement struct {
	ObjectReference
	FirstDiffedObservedTime metav1.Time   `json:"firstDiffedObservedTime"`
	ObservationTime         metav1.Time   `json:"observationTime"`
	ObservedDiffs           []PatchDetail `json:"observedDiffs"`
	// TargetClusterObservedGeneration is missing where the object is.
	TargetClusterObservedGeneration *int64 `json:"targetClusterObservedGeneration,omitempty"`
}

// DriftedPlacement is an object of the placement's that was changed on the
// cluster.
type DriftedPlacement struct {
	ObjectReference
	FirstDriftedObservedTime        metav1.Time   `json:"firstDriftedObservedTime"`
	ObservationTime                 metav1.Time   `json:"observationTime"`
	ObservedDrifts                  []PatchDetail `json:"observedDrifts"`
	TargetClusterObservedGeneration int64         `json:"targetClusterObservedGeneration"`
}

// PatchDetail is one difference. Its path leads to what differs, also inside of lists
// that are owned as a whole, as the paths of KubeFleet's own patches do. A value that is missing on one side is nil;
// one that is a string is there as it is, any other one as its JSON.
type PatchDetail struct {
	Path          string  `json:"path"`
	ValueInHub    *string `json:"valueInHub,omitempty"`
	ValueInMember *string `json:"valueInMember,omitempty"`
}

// wholeObject is the difference of an object that a cluster does not have.
const wholeObject = "(the whole object)"

// placementsMost is how many objects of a cluster the status names.
const placementsMost = 100

// DriftStatuses returns what clusters differ in as status.placementStatuses of
// their placement, ascending by name, with the reasons that KubeFleet's
// conditions have: DiffReported where the placement only reports, which is true
// once everything was compared, whatever came of it; otherwise Applied, which is
// false where an object was not applied because it drifted or was not to be taken
// over. Clusters that do not differ have conditions and nothing else.
func DriftStatuses(p fleet.Placement, all []drift.ClusterReport) []ClusterStatus {
	out := make([]ClusterStatus, 0, len(all))
	for i := range all {
		c := &all[i]
		s := ClusterStatus{ClusterName: c.Cluster, Conditions: []metav1.Condition{conditionOf(&p.ApplyStrategy, c)}}
		for j := range c.Objects[:min(len(c.Objects), placementsMost)] {
			s.add(&c.Objects[j])
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b ClusterStatus) int { return cmp.Compare(a.ClusterName, b.ClusterName) })
	return out
}

// add adds an object that differs.
func (s *ClusterStatus) add(o *drift.ObjectReport) {
	ref := ReferenceTo(snapshot.ID{Group: o.Group, Version: o.Version, Kind: o.Kind, Name: o.Name, Namespace: o.Namespace}, nil)
	first, now, details := seconds(o.FirstObserved), seconds(o.Observed), detailsOf(&o.Report)
	switch {
	case o.Reason == drift.FoundDrifts:
		s.DriftedPlacements = append(s.DriftedPlacements, DriftedPlacement{ref, first, now, details, o.Generation})
	case o.State == drift.Absent:
		whole := wholeObject
		s.DiffedPlacements = append(s.DiffedPlacements, DiffedPlacement{ref, first, now, []PatchDetail{{Path: "/", ValueInHub: &whole}}, nil})
	default:
		s.DiffedPlacements = append(s.DiffedPlacements, DiffedPlacement{ref, first, now, details, &o.Generation})
	}
}

func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

func detailsOf(r *drift.Report) []PatchDetail {
	out := make([]PatchDetail, len(r.Differences))
	for i := range r.Differences {
		d := &r.Differences[i]
		out[i] = PatchDetail{Path: d.Path, ValueInHub: plainValue(d.Hub), ValueInMember: plainValue(d.Member)}
	}
	return out
}

// plainValue is a value as the status has it.
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

// conditionOf says what came of a cluster.
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

// heldBack reports whether an object is not applied because it differs.
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
