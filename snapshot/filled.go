package snapshot

import (
	"maps"
	"slices"
	"strings"
)

// Carry names a part of the hub's objects that a capture leaves out unless a placement asks for it.
type Carry string

// The parts that a placement can ask for.
const (
	// CarryDefaulted carries the fields that nobody set and that the API server of the hub filled
	// in: see [Clean].
	CarryDefaulted Carry = "Defaulted"
	// CarryOwned carries the objects that a controller of the hub made for a selected object, their
	// owner: see [Select].
	CarryOwned Carry = "Owned"
)

// filledFields are the fields of a kind that the API server of the hub, or an admission plug-in
// there, fills in and that another cluster, or an autoscaler on it, must decide itself. Other
// defaults are equal on every cluster and are carried.
func filledFields(group, kind string) [][]string {
	switch (GroupKind{Group: group, Kind: kind}).String() {
	case "Deployment.apps", "StatefulSet.apps", "ReplicaSet.apps", "ReplicationController":
		return [][]string{{"spec", "replicas"}}
	case "Service":
		return [][]string{{"spec", "ipFamilies"}, {"spec", "ipFamilyPolicy"}}
	case "PersistentVolumeClaim":
		return [][]string{{"spec", "storageClassName"}}
	case "Ingress.networking.k8s.io":
		return [][]string{{"spec", "ingressClassName"}}
	}
	return nil
}

// FilledIn reports whether a capture may leave out the field of a kind at a JSON pointer because
// nobody set it: see [Clean].
func FilledIn(group, kind, pointer string) bool {
	return slices.ContainsFunc(filledFields(group, kind), func(path []string) bool { return pointer == "/"+strings.Join(path, "/") })
}

// AnyFilledIn reports whether [FilledIn] is true for the field in any namespaced kind.
func AnyFilledIn(pointer string) bool {
	return slices.ContainsFunc([]GroupKind{
		{"apps", "Deployment"}, {"", "Service"}, {"", "PersistentVolumeClaim"}, {"networking.k8s.io", "Ingress"},
	}, func(k GroupKind) bool { return FilledIn(k.Group, k.Kind, pointer) })
}

// cleanFilled drops the fields from out that the user did not request, and returns them. scaled
// reports whether a selected autoscaler controls the replicas of the object: then a single
// replica, if it may be a default, counts as a default.
func cleanFilled(out, meta map[string]any, id ID, scaled bool) (dropped []string) {
	for _, path := range filledFields(id.Group, id.Kind) {
		parent, name := path[:len(path)-1], path[len(path)-1]
		if !hasAny(out, parent, []string{name}) {
			continue
		}
		answer := askedFor(meta, path)
		if answer == unclear && scaled && name == "replicas" && isOne(at(out, path)) {
			answer = notAsked
		}
		if answer == notAsked {
			prune(out, parent, name)
			dropped = append(dropped, strings.Join(path, "."))
		}
	}
	return dropped
}

func isOne(v any) bool { return v == any(int64(1)) || v == any(float64(1)) }

// cleanBound drops the fields in which controllers of the hub bound a claim and a volume to each
// other. A binding that the author of the object requested stays.
func cleanBound(out, meta map[string]any, kind string) (dropped []string) {
	annotations, _ := meta["annotations"].(map[string]any)
	bound := text(annotations, "pv.kubernetes.io/bound-by-controller") != ""
	drop := func(parent []string, name string) {
		path := append(slices.Clone(parent), name)
		if hasAny(out, parent, []string{name}) && !askedExplicitly(meta, path) {
			prune(out, parent, name)
			dropped = append(dropped, strings.Join(path, "."))
		}
	}
	switch {
	case kind == "PersistentVolumeClaim" && bound:
		drop([]string{"spec"}, "volumeName")
	case kind == "PersistentVolume" && bound:
		drop([]string{"spec"}, "claimRef")
	}
	if kind == "PersistentVolume" {
		prune(out, []string{"spec", "claimRef"}, "uid", "resourceVersion")
	}
	for name := range annotations {
		if boundAnnotation(name) && !askedExplicitly(meta, []string{"metadata", "annotations", name}) {
			prune(out, []string{"metadata", "annotations"}, name)
		}
	}
	return dropped
}

// boundAnnotation reports whether controllers write an annotation of a claim or a volume.
func boundAnnotation(name string) bool {
	switch name {
	case "volume.kubernetes.io/selected-node", "volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner",
		"volume.kubernetes.io/storage-resizer", "volume.kubernetes.io/provisioner-deletion-secret-name",
		"volume.kubernetes.io/provisioner-deletion-secret-namespace", "volume.alpha.kubernetes.io/selected-node":
		return true
	}
	return strings.HasPrefix(name, "pv.kubernetes.io/")
}

// cleanTokens drops the token Secrets from a ServiceAccount that a controller of an older API
// server made for it, because they are not placed.
func cleanTokens(out map[string]any, name string) {
	secrets, ok := out["secrets"].([]any)
	if !ok {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(secrets), func(s any) bool {
		ref, _ := s.(map[string]any)
		suffix, isToken := strings.CutPrefix(text(ref, "name"), name+"-token-")
		return isToken && len(suffix) == 5 && strings.Trim(suffix, "bcdfghjklmnpqrstvwxz2456789") == ""
	})
	switch {
	case len(kept) == len(secrets):
	case len(kept) == 0:
		delete(out, "secrets")
	default:
		out["secrets"] = kept
	}
}

// cleanBundles drops the certificates that a controller of the hub injects into an object with
// one of its annotations, because a controller on each cluster injects the cluster's own. It
// returns the path of what it dropped, "" for nothing.
func cleanBundles(out, meta map[string]any, kind string) string {
	annotations, _ := meta["annotations"].(map[string]any)
	injected := slices.ContainsFunc([]string{
		"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca",
		"service.beta.openshift.io/inject-cabundle",
	}, func(name string) bool { return text(annotations, name) != "" })
	if !injected {
		return ""
	}
	switch kind {
	case "APIService":
		return cleanBundle(out, "spec")
	case "CustomResourceDefinition":
		return cleanBundle(out, "spec", "conversion", "webhook", "clientConfig")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return cleanHooks(out)
	}
	return ""
}

// cleanBundle drops the certificate in the map at path.
func cleanBundle(out map[string]any, path ...string) string {
	const bundle = "caBundle"
	if !hasAny(out, path, []string{bundle}) {
		return ""
	}
	prune(out, path, bundle)
	return strings.Join(append(path, bundle), ".")
}

// cleanHooks drops the certificates of all webhooks.
func cleanHooks(out map[string]any) (path string) {
	hooks, _ := out["webhooks"].([]any)
	if len(hooks) == 0 {
		return ""
	}
	hooks = slices.Clone(hooks)
	for i, h := range hooks {
		if hook, ok := h.(map[string]any); ok {
			hook = maps.Clone(hook)
			if dropped := cleanBundle(hook, "clientConfig"); dropped != "" {
				path = "webhooks[*]." + dropped
			}
			hooks[i] = hook
		}
	}
	out["webhooks"] = hooks
	return path
}
