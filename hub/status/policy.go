package status

import (
	"maps"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// ShownTargets is how many clusters a policy snapshot names.
const ShownTargets = 1000

// PolicyFacts are what a policy snapshot is made of.
type PolicyFacts struct {
	// Placement, Namespace, UID and Generation are those of the placement's
	// object.
	Placement, Namespace string
	UID                  types.UID
	Generation           int64
	// Policy is the placement's spec.policy as it stands there; nil for none.
	Policy map[string]any
	// Decision is what the policy came to.
	Decision *Selection
	// Latest reports whether it is the latest of the placement.
	Latest bool
	// Decided is when the clusters were picked.
	Decided time.Time
}

// wanted is how many clusters the policy picks, or has picked where it does not
// say.
func (f *PolicyFacts) wanted() int64 {
	if n, ok, _ := unstructured.NestedInt64(f.Policy, "numberOfClusters"); ok {
		return n
	}
	return int64(len(f.Decision.Clusters))
}

// policySpec and policyStatus are those of a ClusterSchedulingPolicySnapshot.
type policySpec struct {
	Policy map[string]any `json:"policy,omitempty"`
	// Hash is the text of the digest.
	Hash []byte `json:"policyHash"`
}

type policyStatus struct {
	Generation int64                   `json:"observedCRPGeneration"`
	Conditions []metav1.Condition      `json:"conditions"`
	Targets    []targetCluster         `json:"targetClusters,omitempty"`
	Listing    *v1beta1.ClusterListing `json:"clusterListing,omitempty"`
}

type targetCluster struct {
	Name     string        `json:"clusterName"`
	Selected bool          `json:"selected"`
	Score    *clusterScore `json:"clusterScore,omitempty"`
	Reason   string        `json:"reason"`
}

// clusterScore is how a PickN policy ranked a cluster.
type clusterScore struct {
	Affinity int `json:"affinityScore"`
	Spread   int `json:"priorityScore"`
}

// PolicySnapshot is the object that shows which clusters a policy picked and why
// it did not pick others, of which it names 1000 at most. How many a policy picks
// is no part of it and stands in an annotation. It has a status, which is to be
// written by itself.
func PolicySnapshot(f *PolicyFacts) (*unstructured.Unstructured, error) {
	spec, err := api.ToMap(&policySpec{Policy: withoutNumber(f.Policy), Hash: []byte(f.Decision.PolicyDigest)})
	if err != nil {
		return nil, err
	}
	status, err := api.ToMap(f.status())
	if err != nil {
		return nil, err
	}
	in := api.Scope(f.Namespace != "")
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
	u.SetGroupVersionKind(in.GVK(api.PolicyKind))
	u.SetNamespace(f.Namespace)
	u.SetName(PolicyName(f.Placement, f.Decision.Index))
	u.SetLabels(map[string]string{
		api.LabelParent: f.Placement, api.LabelPolicyIndex: strconv.Itoa(f.Decision.Index), api.LabelLatest: strconv.FormatBool(f.Latest),
	})
	u.SetAnnotations(map[string]string{
		api.AnnotationClusters: strconv.FormatInt(f.wanted(), 10), api.AnnotationGeneration: strconv.FormatInt(f.Generation, 10),
	})
	u.SetOwnerReferences([]metav1.OwnerReference{OwnedBy(in, api.PlacementKind, f.Placement, f.UID)})
	return u, nil
}

// PolicyName is the name of the nth policy snapshot of a placement.
func PolicyName(placement string, index int) string {
	return placement + "-" + strconv.Itoa(index)
}

// withoutNumber is a policy without how many clusters it picks.
func withoutNumber(policy map[string]any) map[string]any {
	out := maps.Clone(policy)
	delete(out, "numberOfClusters")
	return out
}

func (f *PolicyFacts) status() *policyStatus {
	d := f.Decision
	// The generation of a snapshot is 1: its spec does not change.
	t, at := conditions{observedGeneration: 1, created: 1}, stages.At(f.Decided)
	s := &policyStatus{Generation: f.Generation, Targets: d.targets(ShownTargets)}
	if d.Shortfall != "" {
		s.Conditions = []metav1.Condition{t.isFalse(api.ConditionScheduled, api.ReasonUnfulfilled, unfulfilledMessage(d.Shortfall), at)}
	} else {
		s.Conditions = []metav1.Condition{t.isTrue(api.ConditionScheduled, api.ReasonFulfilled, scheduledMessage(len(d.Clusters)), at)}
	}
	if total := max(len(d.Evaluations), len(d.Clusters)); total > len(s.Targets) {
		s.Listing = &v1beta1.ClusterListing{
			Listed: int32(len(s.Targets)), Total: int32(total), Message: "Clusters that were picked are listed before those that were not; a preview of the selection has all",
		}
	}
	return s
}

// unfulfilledMessage reports that fewer clusters were picked than the policy wants,
// and why.
func unfulfilledMessage(shortfall string) string {
	return "could not find all the clusters needed as specified by the scheduling policy: " + shortfall
}

func scheduledMessage(n int) string {
	return "found all cluster needed as specified by the scheduling policy, found " + strconv.Itoa(n) + " cluster(s)"
}
