package snapshot

// reach is where the objects of a kind are.
type reach int

const (
	// unknownReach is that of kinds that only a server knows.
	unknownReach reach = iota
	inNamespaces
	clusterWide
)

// scopeOf returns where the objects of a kind of Kubernetes are.
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

// mixedScope is for groups that have kinds of both.
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
