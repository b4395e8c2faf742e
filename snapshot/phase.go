package snapshot

// Phase is a step of applying objects. The objects of a phase may need objects of earlier phases.
// Therefore the engine applies the phases in their order, and removes objects in the reverse order.
type Phase int

// The phases, first to last.
const (
	// Foundations are namespaces and priority classes.
	Foundations Phase = iota
	// Definitions are CustomResourceDefinitions. A definition is established before objects of its
	// kind are applied.
	Definitions
	// Access are service accounts, roles and their bindings.
	Access
	// Configuration is the input and the limits of workloads: Secrets, ConfigMaps, quotas, limits,
	// network policies, storage.
	Configuration
	// Workloads are the running programs, and the routes to them.
	Workloads
	// Custom are the objects of all other kinds, mostly custom resources whose controller is a
	// workload.
	Custom
	// Admission are webhooks and policies that judge other objects. They must refuse nothing while
	// the server behind them is still starting, so they are created and changed only if the objects
	// of all other phases are healthy.
	Admission
)

// String describes the objects of the phase for people.
func (p Phase) String() string {
	switch p {
	case Foundations:
		return "namespaces"
	case Definitions:
		return "definitions"
	case Access:
		return "access"
	case Configuration:
		return "configuration"
	case Workloads:
		return "workloads"
	case Admission:
		return "admission"
	default:
		return "custom resources"
	}
}

// Phase returns the phase in which the object is applied.
func (id ID) Phase() Phase {
	switch id.Group {
	case "":
		return corePhase(id.Kind)
	case "scheduling.k8s.io":
		return Foundations
	case "apiextensions.k8s.io":
		return Definitions
	case "rbac.authorization.k8s.io":
		return Access
	case "policy", "storage.k8s.io":
		return Configuration
	case "apps", "batch", "autoscaling", "apiregistration.k8s.io":
		return Workloads
	case "networking.k8s.io":
		if id.Kind == "NetworkPolicy" {
			return Configuration
		}
		return Workloads
	case "admissionregistration.k8s.io":
		return Admission
	}
	return Custom
}

func corePhase(kind string) Phase {
	switch kind {
	case "Namespace":
		return Foundations
	case "ServiceAccount":
		return Access
	case "Secret", "ConfigMap", "ResourceQuota", "LimitRange", "PersistentVolume", "PersistentVolumeClaim":
		return Configuration
	}
	return Workloads
}
