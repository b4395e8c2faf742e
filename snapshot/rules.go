package snapshot

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns everything that is wrong with the rules, which are at path:
// names that no namespace has, entries that name no kind. A nil path is "rules".
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

// NamespaceRules returns what authors of a namespace may bring to other clusters
// unless the host says otherwise; the caller may change it. It excludes the kinds of
// Kubernetes that the built-in role edit does not let them create in that namespace,
// since a placement acts with the rights of its host there: everything of RBAC, of
// admission and of definitions, quotas and limits, Endpoints, what is in no namespace.
// The kinds of OpenShift that become rights are among them.
//
// Other custom kinds are allowed, since nothing says which of them are harmless: a
// host whose clusters run controllers that do more for an object than its author may,
// adds their kinds to Never, or lists what it allows in Only.
func NamespaceRules() Rules {
	var never []GroupKind
	for _, group := range []string{
		"rbac.authorization.k8s.io", "authorization.k8s.io", "authentication.k8s.io", "certificates.k8s.io",
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "internal.apiserver.k8s.io",
		"flowcontrol.apiserver.k8s.io", "storagemigration.k8s.io", "storage.k8s.io", "node.k8s.io", "discovery.k8s.io",
		"authorization.openshift.io", "security.openshift.io", // an API server of OpenShift keeps their roles as those of RBAC
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

func (k GroupKind) compare(other GroupKind) int {
	return cmp.Or(strings.Compare(k.Group, other.Group), strings.Compare(k.Kind, other.Kind))
}

// String returns the kind for people, for example "ConfigMap" or "Deployment.apps".
func (k GroupKind) String() string {
	switch {
	case k.Group == "":
		return k.Kind
	case k.Kind == "":
		return k.Group
	}
	return k.Kind + "." + k.Group
}

// Propagates reports whether an object may be placed on other clusters: the
// function [Propagates] says so, its kind and its namespace are not among those
// that the rules exclude.
func (r Rules) Propagates(obj *unstructured.Unstructured) bool {
	return obj != nil && r.propagates(IDOf(obj), obj.Object)
}

// AllowsKind reports whether there may be objects of a kind that are placed: the rules
// do not exclude it, and it is none of those of which nothing is, see [Propagates].
func (r Rules) AllowsKind(group, kind string) bool {
	return r.allows(group, kind) && !neverPlaced(group, kind)
}

// Allows reports whether an object of that name may be placed, as far as its name
// decides that: [Rules.AllowsKind] says so of its kind, and its namespace is not
// reserved. What is in the object decides the rest, see [Rules.Propagates].
func (r Rules) Allows(id ID) bool { return r.AllowsKind(id.Group, id.Kind) && !r.Reserves(id) }

// Reserves reports whether an object is, or is in, a namespace of which nothing is
// placed: kube-*, fleet-*, slipway-system, or one of Reserved.
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

// allows reports whether objects of a kind are placed, as far as the host has a say.
func (r Rules) allows(group, kind string) bool {
	is := func(k GroupKind) bool { return k.Group == group && (k.Kind == "" || k.Kind == kind) }
	return !slices.ContainsFunc(r.Never, is) && (len(r.Only) == 0 || slices.ContainsFunc(r.Only, is))
}

// reservedNames lists the namespaces that are never placed, for people.
func (r Rules) reservedNames() string {
	return strings.Join(append([]string{"kube-*", "fleet-*", "slipway-system"}, r.Reserved...), ", ")
}
