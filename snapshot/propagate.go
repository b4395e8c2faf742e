package snapshot

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Propagates tells whether an object may be placed on other clusters. These may
// not, since every cluster makes its own or they mean nothing elsewhere:
//
//   - objects that are being deleted;
//   - the namespaces kube-*, fleet-* and slipway-system and everything in them;
//   - the ConfigMap kube-root-ca.crt, the ServiceAccount default, and Secrets of
//     the type kubernetes.io/service-account-token;
//   - ReplicaSets, ControllerRevisions, Pods and Jobs that have an owner;
//   - EndpointSlices that a controller manages;
//   - Events, Leases and metrics, which tell of this cluster's moment;
//   - fleet objects other than envelopes.
func Propagates(obj *unstructured.Unstructured) bool {
	return obj != nil && propagates(IDOf(obj), obj.Object)
}

func propagates(id ID, obj map[string]any) bool {
	meta, _ := obj["metadata"].(map[string]any)
	return meta["deletionTimestamp"] == nil && !reserved(id) && !generated(id, obj, meta)
}

// generated tells whether the cluster made the object.
func generated(id ID, obj, meta map[string]any) bool {
	switch id.Group {
	case "":
		return generatedCore(id, obj, meta)
	case "apps":
		return (id.Kind == "ReplicaSet" || id.Kind == "ControllerRevision") && owned(meta)
	case "batch":
		return id.Kind == "Job" && owned(meta)
	case "discovery.k8s.io":
		return id.Kind == "EndpointSlice" && managed(meta)
	case "coordination.k8s.io":
		return id.Kind == "Lease"
	case "placement.kubernetes-fleet.io":
		return !strings.HasSuffix(id.Kind, "Envelope")
	case "events.k8s.io", "metrics.k8s.io", "cluster.kubernetes-fleet.io":
		return true
	}
	return false
}

func generatedCore(id ID, obj, meta map[string]any) bool {
	switch id.Kind {
	case "ConfigMap":
		return id.Name == "kube-root-ca.crt"
	case "ServiceAccount":
		return id.Name == "default"
	case "Secret":
		return text(obj, "type") == "kubernetes.io/service-account-token"
	case "Pod":
		return owned(meta)
	case "Event":
		return true
	}
	return false
}

func owned(meta map[string]any) bool {
	owners, _ := meta["ownerReferences"].([]any)
	return len(owners) > 0
}

func managed(meta map[string]any) bool {
	labels, _ := meta["labels"].(map[string]any)
	return text(labels, "endpointslice.kubernetes.io/managed-by") != ""
}

// reserved tells whether an object is, or is in, a namespace that belongs to
// the cluster or to a fleet's own machinery.
func reserved(id ID) bool {
	namespace := id.Namespace
	if isNamespace(id) {
		namespace = id.Name
	}
	return namespace == "slipway-system" || strings.HasPrefix(namespace, "kube-") || strings.HasPrefix(namespace, "fleet-")
}

func isNamespace(id ID) bool {
	return id.Group == "" && id.Kind == "Namespace"
}
