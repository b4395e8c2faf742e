package inventory

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KubeSystemUID is the annotation by which a MemberCluster or a ClusterProfile
// is pinned to one cluster: the UID that the namespace kube-system has there. It
// is part of the cluster's UID, so a pin that is added or changed makes it
// another cluster: pin when it joins, not while a run is active.
const KubeSystemUID = "slipway.dev/kube-system-uid"

// registrationUID returns the UID of a cluster that an object on the hub stands
// for: that of the object, so that an object that is made again is another
// cluster, then a slash, and the UID that the cluster is pinned to, if any.
func registrationUID(obj metav1.Object) string {
	return string(obj.GetUID()) + "/" + obj.GetAnnotations()[KubeSystemUID]
}
