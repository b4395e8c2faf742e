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

// ReportsInNamespace reports whether the status of a placement is shown in the namespace that it selects, too:
// statusReportingScope is NamespaceAccessible.
func ReportsInNamespace(obj *unstructured.Unstructured) bool {
	scope, _, _ := unstructured.NestedString(obj.Object, "spec", "statusReportingScope")
	return scope == "NamespaceAccessible" && obj.GetNamespace() == ""
}

// SelectedNamespace is the namespace that selectors name, "" where none does.
func SelectedNamespace(selectors []snapshot.Selector) string {
	i := slices.IndexFunc(selectors, func(s snapshot.Selector) bool { return s.Group == "" && s.Kind == "Namespace" })
	if i < 0 {
		return ""
	}
	return selectors[i].Name
}

// NamespaceReplica is the status of a placement as it is shown in the namespace that it selects, to those who may read
// that and not the placement: without what it says of objects and overrides that are elsewhere, without values, and without
// the messages of what is not as it should be, any of which may tell of these. Messages of what is True name no object.
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

// isElsewhere reports whether an object is neither the namespace nor in it.
func isElsewhere(r v1beta1.ResourceIdentifier, namespace string) bool {
	return r.Namespace != namespace && (r.Group != "" || r.Kind != "Namespace" || r.Name != namespace)
}

// withoutTroubles are conditions without the messages of those that are not True.
func withoutTroubles(all []metav1.Condition) []metav1.Condition {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Status != metav1.ConditionTrue {
			all[i].Message = ""
		}
	}
	return all
}

// withoutValues are differences with KubeFleet's words in the place of their values.
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

// ReportedInNamespace is the condition of a placement about the object that shows its status in a namespace; err is why
// that could not be written. It has the time of the condition that obj has, where that is the same.
func ReportedInNamespace(obj *unstructured.Unstructured, namespace string, err error, now stages.Instant) metav1.Condition {
	kind := api.ClusterScope.Kind(api.PlacementKind) + api.ConditionStatusSynced
	t := conditions{observedGeneration: obj.GetGeneration()}
	c := t.isTrue(kind, api.ReasonStatusSynced, fmt.Sprintf("Successfully created or updated ClusterResourcePlacementStatus in namespace '%s'", namespace), now)
	if err != nil {
		c = t.isFalse(kind, api.ReasonStatusNotSynced, "Failed to create or update ClusterResourcePlacementStatus: "+err.Error(), now)
	}
	return sinceBefore(obj, c)
}

// NamespaceMoved is the condition Scheduled of a placement that selects another namespace than the one in which its status
// is shown. As in KubeFleet v0.18 it is False, and all other conditions stay as they are.
func NamespaceMoved(obj *unstructured.Unstructured, wrong error, now stages.Instant) metav1.Condition {
	kind := api.ClusterScope.Kind(api.PlacementKind) + api.ConditionScheduled
	t := conditions{observedGeneration: obj.GetGeneration()}
	return sinceBefore(obj, t.isFalse(kind, api.ReasonInvalidSelectors, wrong.Error(), now))
}

// sinceBefore is a condition with the time of the one that obj has, where that is the same.
func sinceBefore(obj *unstructured.Unstructured, c metav1.Condition) metav1.Condition {
	if before := api.ConditionOf(obj, c.Type); before.Status == string(c.Status) {
		c.LastTransitionTime = metav1.NewTime(before.Since)
	}
	return c
}
