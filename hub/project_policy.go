package hub

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/stages"
)

// shownTargets is how many clusters a policy snapshot names.
const shownTargets = 1000

// policyFacts are what a policy snapshot is made of.
type policyFacts struct {
	// Placement, Namespace, UID and Generation are those of the placement's
	// object.
	Placement, Namespace string
	UID                  types.UID
	Generation           int64
	// Policy is the placement's spec.policy as it stands there; nil for none.
	Policy map[string]any
	// Index, Digest and Clusters are the decision's: which policy it was, what
	// the policy is known by, and what it picked.
	Index    int
	Digest   string
	Clusters []string
	// Latest tells that it is the latest of the placement.
	Latest bool
	// Decided is when the clusters were picked.
	Decided time.Time
}

// policySpec and policyStatus are those of a ClusterSchedulingPolicySnapshot.
type policySpec struct {
	Policy map[string]any `json:"policy,omitempty"`
	// Hash is the text of the digest.
	Hash []byte `json:"policyHash"`
}

type policyStatus struct {
	Generation int64              `json:"observedCRPGeneration"`
	Conditions []metav1.Condition `json:"conditions"`
	Targets    []targetCluster    `json:"targetClusters,omitempty"`
}

type targetCluster struct {
	Name     string `json:"clusterName"`
	Selected bool   `json:"selected"`
	Reason   string `json:"reason"`
}

// policySnapshot is the object that shows which clusters a policy picked, of
// which it names 1000 at most; an annotation has their number. It has a status,
// which is to be written by itself.
func policySnapshot(f *policyFacts) (*unstructured.Unstructured, error) {
	spec, err := toMap(&policySpec{Policy: f.Policy, Hash: []byte(f.Digest)})
	if err != nil {
		return nil, err
	}
	status, err := toMap(f.status())
	if err != nil {
		return nil, err
	}
	in := scope(f.Namespace != "")
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
	u.SetGroupVersionKind(in.gvk(policyKind))
	u.SetNamespace(f.Namespace)
	u.SetName(policyName(f.Placement, f.Index))
	u.SetLabels(map[string]string{
		labelParent: f.Placement, labelPolicyIndex: strconv.Itoa(f.Index), labelLatest: strconv.FormatBool(f.Latest),
	})
	u.SetAnnotations(map[string]string{
		annotationClusters: strconv.Itoa(len(f.Clusters)), annotationGeneration: strconv.FormatInt(f.Generation, 10),
	})
	u.SetOwnerReferences([]metav1.OwnerReference{ownedBy(in, placementKind, f.Placement, f.UID)})
	return u, nil
}

func policyName(placement string, index int) string {
	return placement + "-" + strconv.Itoa(index)
}

func (f *policyFacts) status() *policyStatus {
	s := &policyStatus{Generation: f.Generation}
	at := stages.At(f.Decided)
	s.Conditions = []metav1.Condition{
		// The generation of a snapshot is 1: its spec does not change.
		teller{generation: 1, birth: 1}.yes(conditionScheduled, reasonFulfilled, scheduledMessage(len(f.Clusters)), at),
	}
	for _, name := range f.Clusters[:min(len(f.Clusters), shownTargets)] {
		s.Targets = append(s.Targets, targetCluster{Name: name, Selected: true, Reason: "picked by scheduling policy"})
	}
	return s
}

func scheduledMessage(n int) string {
	return "found all cluster needed as specified by the scheduling policy, found " + strconv.Itoa(n) + " cluster(s)"
}
