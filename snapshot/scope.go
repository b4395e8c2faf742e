package snapshot

import "slices"

// reach is the scope of a kind.
type reach int

const (
	// unknownReach is the scope of a kind that only a server knows.
	unknownReach reach = iota
	inNamespaces
	clusterWide
)

// scopeOf returns the scope of a kind of Kubernetes.
func scopeOf(group, kind string) reach {
	switch group {
	case "":
		return coreScope(kind)
	case "apps", "batch", "autoscaling", "policy", "events.k8s.io", "discovery.k8s.io", "coordination.k8s.io":
		return inNamespaces
	case "apiextensions.k8s.io", "apiregistration.k8s.io", "admissionregistration.k8s.io",
		"scheduling.k8s.io", "certificates.k8s.io", "flowcontrol.apiserver.k8s.io", "node.k8s.io":
		return clusterWide
	}
	return mixedScope(group, kind)
}

func coreScope(kind string) reach {
	switch kind {
	case "Namespace", "Node", "PersistentVolume":
		return clusterWide
	case "ConfigMap", "Endpoints", "Event", "LimitRange", "PersistentVolumeClaim", "Pod", "PodTemplate",
		"ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount":
		return inNamespaces
	}
	return unknownReach
}

// mixedScope returns the scope of kinds in groups that have both namespaced and cluster-scoped
// kinds.
func mixedScope(group, kind string) reach {
	switch group + "/" + kind {
	case "rbac.authorization.k8s.io/Role", "rbac.authorization.k8s.io/RoleBinding",
		"networking.k8s.io/Ingress", "networking.k8s.io/NetworkPolicy",
		"storage.k8s.io/CSIStorageCapacity", envelopeGroup + "/ResourceEnvelope":
		return inNamespaces
	case "rbac.authorization.k8s.io/ClusterRole", "rbac.authorization.k8s.io/ClusterRoleBinding",
		"networking.k8s.io/IngressClass", "networking.k8s.io/IPAddress", "networking.k8s.io/ServiceCIDR",
		"storage.k8s.io/StorageClass", "storage.k8s.io/CSIDriver", "storage.k8s.io/CSINode",
		"storage.k8s.io/VolumeAttachment", "storage.k8s.io/VolumeAttributesClass",
		envelopeGroup + "/ClusterResourceEnvelope":
		return clusterWide
	}
	return unknownReach
}

// Reaches reports whether selectors may pick an object in a namespace, judged by the selectors
// alone. If a selector picks namespaces by labels, the object may be in any namespace. If a
// selector names a kind without a namespace, the object may be in any namespace, unless the kind is
// known to be cluster-scoped. The selectors need not be valid.
func Reaches(selectors []Selector, namespace string) bool {
	within := ""
	for _, s := range selectors {
		if s.isNamespace() && s.Scope == NamespaceWithResourceSelectors {
			within = s.Name
		}
	}
	if within != "" && within != namespace {
		return false
	}
	return slices.ContainsFunc(selectors, func(s Selector) bool {
		if s.isNamespace() {
			return s.brings() && (s.Name == "" || s.Name == namespace)
		}
		return scopeOf(s.Group, s.Kind) != clusterWide && (s.Namespace == "" || s.Namespace == namespace)
	})
}

// isNamespace reports whether the selector picks Namespaces.
func (s Selector) isNamespace() bool { return isNamespace(ID{Group: s.Group, Kind: s.Kind}) }

// brings reports whether a picked Namespace brings its content.
func (s Selector) brings() bool { return s.Scope == "" || s.Scope == NamespaceWithResources }
