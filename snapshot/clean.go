package snapshot

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Clean returns a copy of obj without what the cluster it was read from owns:
//
//   - status, and in metadata resourceVersion, generation, uid, selfLink,
//     creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds,
//     managedFields, ownerReferences and finalizers;
//   - the annotations kubectl.kubernetes.io/last-applied-configuration and
//     deployment.kubernetes.io/revision;
//   - of a Service clusterIP and clusterIPs unless None, healthCheckNodePort and
//     the nodePort of each port;
//   - of a Job without manualSelector the controller-uid labels and their
//     selector;
//   - creationTimestamp in the templates of workloads;
//   - of a claim that a controller bound spec.volumeName, and of a volume that a
//     controller bound spec.claimRef, in any case its uid and resourceVersion; the
//     annotations that controllers write for that, such as those of pv.kubernetes.io;
//   - the token Secrets of a ServiceAccount;
//   - the caBundle of an object with an annotation by which a controller injects one;
//   - the fields that nobody set and that the API server of the hub filled in, if
//     another cluster must decide them by itself: spec.replicas of a Deployment, a
//     StatefulSet, a ReplicaSet and a ReplicationController, spec.ipFamilies and
//     spec.ipFamilyPolicy of a Service, spec.storageClassName of a claim and
//     spec.ingressClassName of an Ingress.
//
// Who set a field is decided by metadata.managedFields and by the annotation of kubectl's
// last client-side apply. An object without managedFields was written by hand: all of
// its fields are set. So is a field that the writer owns who created the object with another
// request than an apply, because that writer owns defaults, too.
//
// A map that this empties is dropped; one that was empty before stays. Labels,
// other annotations and all of spec stay, also the spec.finalizers of a
// Namespace.
//
// The copy shares with obj every map and list that is the same in both. Neither
// may be changed in place afterwards. Cleaning twice is the same as once.
func Clean(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out, _ := cleaning{}.clean(obj)
	return out
}

// cleaning is how objects are cleaned.
type cleaning struct {
	// carryDefaulted keeps the fields that nobody set.
	carryDefaulted bool
	// scaled are the objects, without their versions, whose replicas an autoscaler has that is selected, too.
	scaled map[ID]bool
	// omitted counts the fields that were dropped and that not every cluster drops; nil counts nothing.
	omitted omissions
}

// clean is [Clean].
func (c cleaning) clean(obj *unstructured.Unstructured) (cleaned *unstructured.Unstructured, id ID) {
	if obj == nil || obj.Object == nil {
		return &unstructured.Unstructured{}, ID{}
	}
	out := maps.Clone(obj.Object)
	id = idOf(out)
	meta, _ := out["metadata"].(map[string]any)
	delete(out, "status")
	cleanMetadata(out)
	switch id.Group {
	case "":
		c.cleanCore(out, meta, id)
	case "apps":
		prune(out, []string{"spec", "template", "metadata"}, "creationTimestamp")
	case "batch":
		cleanBatch(out, id.Kind)
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io":
		cleanBundles(out, meta, id.Kind)
	}
	if !c.carryDefaulted {
		for _, path := range cleanFilled(out, meta, id, c.scaled[id.object()]) {
			c.omit(id, NotSet, path)
		}
	}
	return &unstructured.Unstructured{Object: out}, id
}

func (c cleaning) omit(id ID, reason OmissionReason, path string) {
	if c.omitted != nil {
		c.omitted.add(id, reason, path)
	}
}

func (c cleaning) cleanCore(out, meta map[string]any, id ID) {
	switch id.Kind {
	case "Service":
		cleanService(out)
	case "ServiceAccount":
		cleanTokens(out, id.Name)
	case "Endpoints":
		prune(out, []string{"metadata", "annotations"}, "endpoints.kubernetes.io/last-change-trigger-time")
	case "PersistentVolume", "PersistentVolumeClaim":
		for _, path := range cleanBound(out, meta, id.Kind) {
			c.omit(id, BoundOnHub, path)
		}
	}
}

// cleanManifest is [Clean] for an object from a manifest that no server has read: values that a server would
// have chosen, such as a node port, are intended there and stay.
func cleanManifest(obj map[string]any) *unstructured.Unstructured {
	out := maps.Clone(obj)
	delete(out, "status")
	cleanMetadata(out)
	return &unstructured.Unstructured{Object: out}
}

func cleanMetadata(out map[string]any) {
	prune(out, []string{"metadata"}, "resourceVersion", "generation", "uid", "selfLink",
		"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
		"managedFields", "ownerReferences", "finalizers")
	prune(out, []string{"metadata", "annotations"},
		"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision")
}

func cleanBatch(out map[string]any, kind string) {
	switch kind {
	case "Job":
		cleanJob(out)
		prune(out, []string{"spec", "template", "metadata"}, "creationTimestamp")
	case "CronJob":
		prune(out, []string{"spec", "jobTemplate", "metadata"}, "creationTimestamp")
		prune(out, []string{"spec", "jobTemplate", "spec", "template", "metadata"}, "creationTimestamp")
	}
}

// cleanJob drops the selector that the API server generated from the Job's uid:
// another cluster refuses it and generates its own.
func cleanJob(out map[string]any) {
	spec, _ := out["spec"].(map[string]any)
	if manual, _ := spec["manualSelector"].(bool); manual {
		return
	}
	for _, path := range [...][]string{
		{"metadata", "labels"},
		{"spec", "selector", "matchLabels"},
		{"spec", "template", "metadata", "labels"},
	} {
		prune(out, path, "controller-uid", "batch.kubernetes.io/controller-uid")
	}
}

func cleanService(out map[string]any) {
	spec, _ := out["spec"].(map[string]any)
	prune(out, []string{"spec"}, "healthCheckNodePort")
	if spec["clusterIP"] != any("None") {
		prune(out, []string{"spec"}, "clusterIP")
	}
	if ips, _ := spec["clusterIPs"].([]any); len(ips) == 0 || ips[0] != any("None") {
		prune(out, []string{"spec"}, "clusterIPs")
	}
	cleanPorts(out)
}

// cleanPorts copies the list of ports only if one of them has a nodePort.
func cleanPorts(out map[string]any) {
	spec, _ := out["spec"].(map[string]any)
	ports, _ := spec["ports"].([]any)
	if !slices.ContainsFunc(ports, hasNodePort) {
		return
	}
	ports = slices.Clone(ports)
	for i, p := range ports {
		if hasNodePort(p) {
			port, _ := p.(map[string]any)
			port = maps.Clone(port)
			delete(port, "nodePort")
			ports[i] = port
		}
	}
	spec = maps.Clone(spec)
	spec["ports"] = ports
	out["spec"] = spec
}

func hasNodePort(p any) bool {
	port, _ := p.(map[string]any)
	_, ok := port["nodePort"]
	return ok
}

// prune deletes keys from the map at path below m. It changes m itself, but
// copies the maps on the path, and drops those it emptied.
func prune(m map[string]any, path []string, keys ...string) {
	if len(path) == 0 {
		for _, k := range keys {
			delete(m, k)
		}
		return
	}
	child, _ := m[path[0]].(map[string]any)
	if !hasAny(child, path[1:], keys) {
		return
	}
	child = maps.Clone(child)
	prune(child, path[1:], keys...)
	m[path[0]] = child
	if len(child) == 0 {
		delete(m, path[0])
	}
}

// hasAny reports whether the map at path below m has one of keys.
func hasAny(m map[string]any, path, keys []string) bool {
	for _, field := range path {
		m, _ = m[field].(map[string]any)
	}
	return slices.ContainsFunc(keys, func(k string) bool { _, ok := m[k]; return ok })
}
