package snapshot

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Propagates reports whether an object may be placed on other clusters. These may
// not, since every cluster makes its own or they mean nothing elsewhere:
//
//   - objects that are being deleted;
//   - the namespaces kube-*, fleet-* and slipway-system and everything in them;
//   - the ConfigMap kube-root-ca.crt, the ServiceAccount default, and Secrets of
//     the type kubernetes.io/service-account-token;
//   - ReplicaSets, ControllerRevisions and Jobs that have an owner;
//   - EndpointSlices that a controller manages;
//   - Pods, Nodes, Events, Leases and metrics, which are the state of this cluster;
//   - fleet objects other than envelopes, and the ServiceImports,
//     TrafficManagerProfiles and TrafficManagerBackends of fleet networking.
//
// It allows all Endpoints, since those depend on other objects: see [Select].
func Propagates(obj *unstructured.Unstructured) bool {
	return obj != nil && propagates(IDOf(obj), obj.Object)
}

func propagates(id ID, obj map[string]any) bool {
	meta, _ := obj["metadata"].(map[string]any)
	return meta["deletionTimestamp"] == nil && !neverPlaced(id.Group, id.Kind) && !reserved(id) && !generated(id, obj, meta)
}

// neverPlaced reports whether no object of the kind is placed.
func neverPlaced(group, kind string) bool {
	switch group {
	case "":
		return kind == "Pod" || kind == "Node" || kind == "Event"
	case envelopeGroup:
		return !isEnvelope(ID{Group: group, Kind: kind})
	case "networking.fleet.azure.com":
		return kind == "ServiceImport" || kind == "TrafficManagerProfile" || kind == "TrafficManagerBackend"
	case "events.k8s.io", "metrics.k8s.io", "coordination.k8s.io", "cluster.kubernetes-fleet.io":
		return true
	}
	return false
}

// generated reports whether the cluster made the object.
func generated(id ID, obj, meta map[string]any) bool {
	switch id.Group {
	case "":
		return generatedCore(id, obj)
	case "apps":
		return (id.Kind == "ReplicaSet" || id.Kind == "ControllerRevision") && owned(meta)
	case "batch":
		return id.Kind == "Job" && owned(meta)
	case "discovery.k8s.io":
		return id.Kind == "EndpointSlice" && managed(meta)
	}
	return false
}

func generatedCore(id ID, obj map[string]any) bool {
	switch id.Kind {
	case "ConfigMap":
		return id.Name == "kube-root-ca.crt"
	case "ServiceAccount":
		return id.Name == "default"
	case "Secret":
		return text(obj, "type") == "kubernetes.io/service-account-token"
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

// reserved reports whether an object is, or is in, a namespace that belongs to
// the cluster or to a fleet's own machinery.
func reserved(id ID) bool {
	namespace := namespaceOf(id)
	return namespace == "slipway-system" || strings.HasPrefix(namespace, "kube-") || strings.HasPrefix(namespace, "fleet-")
}

// namespaceOf returns the namespace that an object is, or is in.
func namespaceOf(id ID) string {
	if isNamespace(id) {
		return id.Name
	}
	return id.Namespace
}

func isNamespace(id ID) bool {
	return id.Group == "" && id.Kind == "Namespace"
}
