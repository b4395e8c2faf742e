package status

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// ShownTargets is the maximum number of clusters that a policy snapshot names.
const ShownTargets = 1000

// PolicyFacts are the input of [PolicySnapshot].
type PolicyFacts struct {
	// Placement, Namespace, UID and Generation are fields of the placement's object.
	Placement, Namespace string
	UID                  types.UID
	Generation           int64
	// Policy is spec.policy of that object; nil for none.
	Policy *v1beta1.PlacementPolicy
	// Decision is the result of the policy.
	Decision *Selection
	// Latest reports whether this is the latest policy snapshot of the placement.
	Latest bool
	// Decided is when the clusters were picked.
	Decided time.Time
}

// wanted returns the number of clusters in the policy; if it has none, the number of clusters that
// it picked.
func (f *PolicyFacts) wanted() int64 {
	if f.Policy != nil && f.Policy.NumberOfClusters != nil {
		return int64(*f.Policy.NumberOfClusters)
	}
	return int64(len(f.Decision.Clusters))
}

// PolicySnapshot returns the object that shows which clusters a policy picked and why it did not
// pick others. It names at most ShownTargets clusters. The number of clusters that the policy wants
// is in an annotation and not in the spec. The caller must write the status separately.
func PolicySnapshot(f *PolicyFacts) (*unstructured.Unstructured, error) {
	in := api.Scope(f.Namespace != "")
	u, err := api.New(in.GVK(api.PolicyKind), &v1beta1.SchedulingPolicySnapshotSpec{Policy: withoutNumber(f.Policy), PolicyHash: []byte(f.Decision.PolicyDigest)})
	if err != nil {
		return nil, err
	}
	if u.Object["status"], err = api.ToMap(f.status()); err != nil {
		return nil, err
	}
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

// PolicyName returns the name of a policy snapshot of a placement.
func PolicyName(placement string, index int) string {
	return placement + "-" + strconv.Itoa(index)
}

// withoutNumber returns a copy of the policy without its number of clusters.
func withoutNumber(policy *v1beta1.PlacementPolicy) *v1beta1.PlacementPolicy {
	out := policy.DeepCopy()
	if out != nil {
		out.NumberOfClusters = nil
	}
	return out
}

func (f *PolicyFacts) status() *v1beta1.SchedulingPolicySnapshotStatus {
	d := f.Decision
	// The generation of a snapshot is 1: its spec does not change.
	t, at := conditions{observedGeneration: 1, created: 1}, stages.At(f.Decided)
	s := &v1beta1.SchedulingPolicySnapshotStatus{ObservedCRPGeneration: f.Generation, ClusterDecisions: d.targets(ShownTargets)}
	if d.Shortfall != "" {
		s.Conditions = []metav1.Condition{t.isFalse(api.ConditionScheduled, api.ReasonUnfulfilled, unfulfilledMessage(d.Shortfall), at)}
	} else {
		s.Conditions = []metav1.Condition{t.isTrue(api.ConditionScheduled, api.ReasonFulfilled, scheduledMessage(len(d.Clusters)), at)}
	}
	if total := max(len(d.Evaluations), len(d.Clusters)); total > len(s.ClusterDecisions) {
		s.ClusterListing = &v1beta1.ClusterListing{
			Listed: int32(len(s.ClusterDecisions)), Total: int32(total), Message: "Clusters that were picked are listed before those that were not; a preview of the selection has all",
		}
	}
	return s
}

// unfulfilledMessage returns the message for a policy that picked fewer clusters than it wants.
func unfulfilledMessage(shortfall string) string {
	return "could not find all the clusters needed as specified by the scheduling policy: " + shortfall
}

func scheduledMessage(n int) string {
	return "found all cluster needed as specified by the scheduling policy, found " + strconv.Itoa(n) + " cluster(s)"
}
