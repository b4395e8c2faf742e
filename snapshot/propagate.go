package snapshot

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Propagates reports whether an object may be placed on other clusters. It returns false for
// objects that every cluster makes by itself, and for objects that have no meaning on another
// cluster:
//
//   - objects that are being deleted;
//   - the namespaces kube-*, fleet-* and slipway-system and everything in them;
//   - the ConfigMap kube-root-ca.crt, the ServiceAccount default, and Secrets of the type
//     kubernetes.io/service-account-token;
//   - ReplicaSets, ControllerRevisions and Jobs that have an owner, and objects of any kind whose
//     controller is a workload;
//   - Endpoints and EndpointSlices that a controller manages, by their labels and owners; a value
//     of endpointslice.kubernetes.io/managed-by with a dot, or with the word controller, names a
//     controller;
//   - ConfigMaps and Endpoints that are the lock of a leader election;
//   - Pods, Nodes, Events, Leases and metrics, which are the state of one cluster;
//   - fleet objects other than envelopes, and the ServiceImports, TrafficManagerProfiles and
//     TrafficManagerBackends of fleet networking.
//
// It misses some Endpoints and some objects that controllers make, because it sees one object at
// a time: see [Select].
func Propagates(obj *unstructured.Unstructured) bool {
	return obj != nil && propagates(IDOf(obj), obj.Object)
}

func propagates(id ID, obj map[string]any) bool { return withheld(id, obj) == "" }

// withheld returns why an object is not placed, empty if it may be.
func withheld(id ID, obj map[string]any) OmissionReason {
	meta, _ := obj["metadata"].(map[string]any)
	switch {
	case id.Group == "" && id.Kind == "Pod" && controllerOf(meta) == nil && !reserved(id):
		return NoWorkload
	case neverPlaced(id.Group, id.Kind):
		return EveryCluster
	case reserved(id):
		return Reserved
	case meta["deletionTimestamp"] != nil:
		return BeingDeleted
	case generated(id, meta):
		return EveryCluster
	case isToken(id, obj), alwaysOwned(id) && owned(meta):
		return BoundOnHub
	case ownedByWorkload(meta):
		return OwnedOnHub
	}
	return ""
}

// neverPlaced reports whether no object of the kind is ever placed.
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

// generated reports whether the cluster made the object itself.
func generated(id ID, meta map[string]any) bool {
	switch id.Group {
	case "":
		return generatedCore(id, meta)
	case "apps", "batch":
		return alwaysOwned(id) && ownedByWorkload(meta)
	case "discovery.k8s.io":
		return id.Kind == "EndpointSlice" && managed(meta)
	}
	return false
}

// alwaysOwned reports whether objects of the kind with an owner are always left out, even if the
// owner is not their controller.
func alwaysOwned(id ID) bool {
	switch id.Group {
	case "apps":
		return id.Kind == "ReplicaSet" || id.Kind == "ControllerRevision"
	case "batch":
		return id.Kind == "Job"
	}
	return false
}

// isToken reports whether the object is a Secret in which a controller of the hub stores the token
// of a ServiceAccount.
func isToken(id ID, obj map[string]any) bool {
	return id.Group == "" && id.Kind == "Secret" && text(obj, "type") == "kubernetes.io/service-account-token"
}

func generatedCore(id ID, meta map[string]any) bool {
	switch id.Kind {
	case "ConfigMap":
		return id.Name == "kube-root-ca.crt" || isLock(meta)
	case "Endpoints":
		labels, _ := meta["labels"].(map[string]any)
		return isController(text(labels, "endpoints.kubernetes.io/managed-by")) || isLock(meta)
	case "ServiceAccount":
		return id.Name == "default"
	}
	return false
}

// settings returns the fields of an object that every cluster makes, if users set them: those of
// the ServiceAccount default, which Pods without an account get.
func settings(id ID, obj map[string]any) (paths []string) {
	if id.Group != "" || id.Kind != "ServiceAccount" {
		return nil
	}
	meta, _ := obj["metadata"].(map[string]any)
	for _, at := range []struct {
		in    map[string]any
		field string
		path  string
	}{{obj, "automountServiceAccountToken", ""}, {obj, "imagePullSecrets", ""}, {meta, "annotations", "metadata."}, {meta, "labels", "metadata."}} {
		if value, set := at.in[at.field]; set && !generatedPullSecrets(value) {
			paths = append(paths, at.path+at.field)
		}
	}
	return paths
}

// generatedPullSecrets reports whether a field has only the pull secrets that OpenShift gives to
// each ServiceAccount.
func generatedPullSecrets(field any) bool {
	secrets, is := field.([]any)
	return is && !slices.ContainsFunc(secrets, func(s any) bool {
		secret, _ := s.(map[string]any)
		return !strings.Contains(text(secret, "name"), "-dockercfg-")
	})
}

func owned(meta map[string]any) bool {
	owners, _ := meta["ownerReferences"].([]any)
	return len(owners) > 0
}

// managed reports whether a controller manages an EndpointSlice. Users write slices for Services
// without a selector.
func managed(meta map[string]any) bool {
	labels, _ := meta["labels"].(map[string]any)
	return isController(text(labels, "endpointslice.kubernetes.io/managed-by")) || controllerOf(meta) != nil
}

// isController reports whether the value of a managed-by label names a controller. A value
// without a dot is a user's, unless it contains the reserved word controller.
func isController(name string) bool {
	return strings.Contains(name, ".") || strings.Contains(name, "controller")
}

// isLock reports whether an object is the lock of a leader election.
func isLock(meta map[string]any) bool {
	annotations, _ := meta["annotations"].(map[string]any)
	return text(annotations, "control-plane.alpha.kubernetes.io/leader") != ""
}

// controllerOf returns the owner reference of the controller that made the object, nil if there
// is none.
func controllerOf(meta map[string]any) map[string]any {
	owners, _ := meta["ownerReferences"].([]any)
	for _, o := range owners {
		owner, _ := o.(map[string]any)
		if is, _ := owner["controller"].(bool); is {
			return owner
		}
	}
	return nil
}

// ownedByWorkload reports whether the controller of a workload made the object.
func ownedByWorkload(meta map[string]any) bool {
	owner := controllerOf(meta)
	group, _, _ := strings.Cut(text(owner, "apiVersion"), "/")
	switch group {
	case "apps", "batch":
		return true
	case "v1":
		return text(owner, "kind") == "Pod" || text(owner, "kind") == "ReplicationController"
	}
	return false
}

// reserved reports whether an object is, or is in, a namespace that belongs to the cluster or to
// a fleet's own components.
func reserved(id ID) bool {
	namespace := namespaceOf(id)
	return namespace == "slipway-system" || strings.HasPrefix(namespace, "kube-") || strings.HasPrefix(namespace, "fleet-")
}
