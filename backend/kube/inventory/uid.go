package inventory

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KubeSystemUID is the annotation that pins a MemberCluster or a ClusterProfile to one cluster:
// its value is the UID of the namespace kube-system there. It is part of the cluster's UID, so
// adding or changing a pin makes it another cluster: pin a cluster when it joins, not while a run
// is active.
const KubeSystemUID = "slipway.dev/kube-system-uid"

// registrationUID returns the UID of a cluster: the UID of its object on the hub, so that a
// recreated object is another cluster, then a slash, and the UID to which the cluster is pinned,
// if any.
func registrationUID(obj metav1.Object) string {
	return string(obj.GetUID()) + "/" + obj.GetAnnotations()[KubeSystemUID]
}
