package snapshot

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns all problems of the rules: names that no namespace can have, and entries
// without a kind. Field paths in errors start with path; nil is "rules".
func (r Rules) Validate(path *field.Path) field.ErrorList {
	if path == nil {
		path = field.NewPath("rules")
	}
	var errs field.ErrorList
	for i, name := range r.Reserved {
		for _, m := range validation.IsDNS1123Label(name) {
			errs = append(errs, field.Invalid(path.Child("reserved").Index(i), name, m))
		}
	}
	errs = append(errs, validateKinds(r.Never, path.Child("never"))...)
	return append(errs, validateKinds(r.Only, path.Child("only"))...)
}

func validateKinds(kinds []GroupKind, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, k := range kinds {
		if k.Kind == "" && k.Group == "" {
			errs = append(errs, field.Required(path.Index(i).Child("kind"), "for example Secret; only a group that has a name can stand for all its kinds"))
		}
	}
	return errs
}

// NamespaceRules returns the default rules for objects that authors of a namespace may bring to
// other clusters; the caller may change them. They exclude the kinds of Kubernetes that the
// built-in role edit does not let these authors create in their namespace, because a placement
// acts with the rights of its host on the clusters: the kinds of RBAC and of admission, definitions
// of custom resources, quotas and limits, Endpoints, and all cluster-scoped kinds. They also
// exclude the kinds of OpenShift that grant rights.
//
// Other custom kinds are allowed, because no rule knows which of them are harmless. If
// controllers on a host's clusters do more for an object than its author may do, the host must
// add the object's kind to Never, or list the allowed kinds in Only.
func NamespaceRules() Rules {
	var never []GroupKind
	for _, group := range []string{
		"rbac.authorization.k8s.io", "authorization.k8s.io", "authentication.k8s.io", "certificates.k8s.io",
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "internal.apiserver.k8s.io",
		"flowcontrol.apiserver.k8s.io", "storagemigration.k8s.io", "storage.k8s.io", "node.k8s.io", "discovery.k8s.io",
		"authorization.openshift.io", "security.openshift.io", // OpenShift keeps their roles as RBAC roles
	} {
		never = append(never, GroupKind{Group: group})
	}
	for group, kinds := range map[string]string{
		"":                  "Binding ComponentStatus Endpoints LimitRange Namespace Node PersistentVolume PodTemplate ResourceQuota",
		"apps":              "ControllerRevision",
		"extensions":        "PodSecurityPolicy", // clusters before 1.25 have them
		"networking.k8s.io": "IPAddress IngressClass ServiceCIDR",
		"policy":            "PodSecurityPolicy",
		"resource.k8s.io":   "DeviceClass DeviceTaintRule ResourcePoolStatusRequest ResourceSlice",
		"scheduling.k8s.io": "PriorityClass",
	} {
		for kind := range strings.FieldsSeq(kinds) {
			never = append(never, GroupKind{Group: group, Kind: kind})
		}
	}
	slices.SortFunc(never, GroupKind.compare)
	return Rules{Never: never}
}

// Propagates reports whether an object may be placed on other clusters: the function [Propagates]
// allows it, and the rules do not exclude its kind or its namespace.
func (r Rules) Propagates(obj *unstructured.Unstructured) bool {
	return obj != nil && r.propagates(IDOf(obj), obj.Object)
}

// AllowsKind reports whether objects of a kind may be placed: the rules do not exclude it, and
// [Propagates] does not exclude the whole kind.
func (r Rules) AllowsKind(group, kind string) bool {
	return r.allows(group, kind) && !neverPlaced(group, kind)
}

// Allows reports whether the name of an object permits placing it: [Rules.AllowsKind] permits its
// kind, and its namespace is not reserved. The content of the object decides the rest, see
// [Rules.Propagates].
func (r Rules) Allows(id ID) bool { return r.AllowsKind(id.Group, id.Kind) && !r.Reserves(id) }

// Reserves reports whether an object is, or is in, a reserved namespace: kube-*, fleet-*,
// slipway-system, or one of Reserved. Nothing in them is placed.
func (r Rules) Reserves(id ID) bool {
	return reserved(id) || slices.Contains(r.Reserved, namespaceOf(id))
}

func (r Rules) propagates(id ID, obj map[string]any) bool { return r.withheld(id, obj) == "" }

// withheld returns why an object is not placed, empty if it may be.
func (r Rules) withheld(id ID, obj map[string]any) OmissionReason {
	reason := withheld(id, obj)
	switch {
	case reason == EveryCluster || reason == Reserved:
		return reason
	case r.Reserves(id):
		return Reserved
	case !r.allows(id.Group, id.Kind):
		return Excluded
	}
	return reason
}

// allows reports whether the host's rules permit a kind.
func (r Rules) allows(group, kind string) bool {
	is := func(k GroupKind) bool { return k.Group == group && (k.Kind == "" || k.Kind == kind) }
	return !slices.ContainsFunc(r.Never, is) && (len(r.Only) == 0 || slices.ContainsFunc(r.Only, is))
}

// reservedNames lists the namespaces that are never placed, for people.
func (r Rules) reservedNames() string {
	return strings.Join(append([]string{"kube-*", "fleet-*", "slipway-system"}, r.Reserved...), ", ")
}
