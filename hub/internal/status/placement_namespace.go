package status

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// ReportsInNamespace reports whether the status of a cluster-scoped placement is also shown in the
// namespace that it selects: its statusReportingScope is NamespaceAccessible.
func ReportsInNamespace(obj *unstructured.Unstructured) bool {
	return obj.GetNamespace() == "" && api.Spec[v1beta1.PlacementSpec](obj).StatusReportingScope == v1beta1.NamespaceAccessible
}

// SelectedNamespace returns the namespace that selectors name, "" if they name none.
func SelectedNamespace(selectors []snapshot.Selector) string {
	i := slices.IndexFunc(selectors, func(s snapshot.Selector) bool { return s.Group == "" && s.Kind == "Namespace" })
	if i < 0 {
		return ""
	}
	return selectors[i].Name
}

// NamespaceReplica returns the copy of a placement's status that is shown in the namespace that the
// placement selects. Its readers may read the namespace and not the placement. Therefore the copy
// omits objects and overrides outside of the namespace, all values, and the message of every
// condition that is not True, because these could reveal such objects. Messages of conditions that
// are True name no object.
func NamespaceReplica(s *v1beta1.PlacementStatus, namespace string) *v1beta1.PlacementStatus {
	out := &v1beta1.PlacementStatus{
		Conditions: withoutTroubles(s.Conditions), ObservedResourceIndex: s.ObservedResourceIndex, PlacementStatusesTotal: s.PlacementStatusesTotal,
		SelectedResources: slices.DeleteFunc(slices.Clone(s.SelectedResources), func(r v1beta1.ResourceIdentifier) bool { return isElsewhere(r, namespace) }),
	}
	out.SelectedResourcesTotal = len(out.SelectedResources)
	for _, c := range s.PerClusterPlacementStatuses {
		p := v1beta1.PerClusterPlacementStatus{ClusterName: c.ClusterName, ObservedResourceIndex: c.ObservedResourceIndex, Conditions: withoutTroubles(c.Conditions)}
		for _, o := range c.ApplicableResourceOverrides {
			if o.Namespace == namespace {
				p.ApplicableResourceOverrides = append(p.ApplicableResourceOverrides, o)
			}
		}
		for _, f := range c.FailedPlacements {
			if !isElsewhere(f.ResourceIdentifier, namespace) {
				f.Condition.Message = ""
				p.FailedPlacements = append(p.FailedPlacements, f)
			}
		}
		for _, d := range c.DiffedPlacements {
			if !isElsewhere(d.ResourceIdentifier, namespace) {
				d.ObservedDiffs = withoutValues(d.ObservedDiffs)
				p.DiffedPlacements = append(p.DiffedPlacements, d)
			}
		}
		for _, d := range c.DriftedPlacements {
			if !isElsewhere(d.ResourceIdentifier, namespace) {
				d.ObservedDrifts = withoutValues(d.ObservedDrifts)
				p.DriftedPlacements = append(p.DriftedPlacements, d)
			}
		}
		p.DifferencesTotal = len(p.DiffedPlacements) + len(p.DriftedPlacements)
		out.PerClusterPlacementStatuses = append(out.PerClusterPlacementStatuses, p)
	}
	return out
}

// isElsewhere reports whether an object is outside of the namespace. The namespace itself is
// inside.
func isElsewhere(r v1beta1.ResourceIdentifier, namespace string) bool {
	return r.Namespace != namespace && (r.Group != "" || r.Kind != "Namespace" || r.Name != namespace)
}

// withoutTroubles returns the conditions without the messages of conditions that are not True.
func withoutTroubles(all []metav1.Condition) []metav1.Condition {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Status != metav1.ConditionTrue {
			all[i].Message = ""
		}
	}
	return all
}

// withoutValues returns the differences with KubeFleet's placeholder instead of values.
func withoutValues(all []v1beta1.PatchDetail) []v1beta1.PatchDetail {
	words := "(redacted for security reasons)"
	all = slices.Clone(all)
	for i := range all {
		d := &all[i]
		if d.ValueInHub != nil && *d.ValueInHub != "" {
			d.ValueInHub = &words
		}
		if d.ValueInMember != nil && *d.ValueInMember != "" {
			d.ValueInMember = &words
		}
	}
	return all
}

// ReportedInNamespace returns the condition about the object that shows the placement's status in a
// namespace; err is the reason why that object could not be written. The condition keeps its time
// in obj if its status has not changed.
func ReportedInNamespace(obj *unstructured.Unstructured, namespace string, err error, now stages.Instant) metav1.Condition {
	kind := api.ClusterScope.Kind(api.PlacementKind) + api.ConditionStatusSynced
	t := conditions{observedGeneration: obj.GetGeneration()}
	c := t.isTrue(kind, api.ReasonStatusSynced, fmt.Sprintf("Successfully created or updated ClusterResourcePlacementStatus in namespace '%s'", namespace), now)
	if err != nil {
		c = t.isFalse(kind, api.ReasonStatusNotSynced, "Failed to create or update ClusterResourcePlacementStatus: "+err.Error(), now)
	}
	return sinceBefore(obj, c)
}

// NamespaceMoved returns the condition Scheduled of a placement that shows its status in one
// namespace and now selects another. As in KubeFleet v0.18 the condition is False, and all other
// conditions stay unchanged.
func NamespaceMoved(obj *unstructured.Unstructured, wrong error, now stages.Instant) metav1.Condition {
	kind := api.ClusterScope.Kind(api.PlacementKind) + api.ConditionScheduled
	t := conditions{observedGeneration: obj.GetGeneration()}
	return sinceBefore(obj, t.isFalse(kind, api.ReasonInvalidSelectors, wrong.Error(), now))
}

// sinceBefore returns c with the time of the same condition in obj, if the status is the same.
func sinceBefore(obj *unstructured.Unstructured, c metav1.Condition) metav1.Condition {
	if before := api.ConditionOf(obj, c.Type); before.Status == string(c.Status) {
		c.LastTransitionTime = metav1.NewTime(before.Since)
	}
	return c
}
