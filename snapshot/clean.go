package snapshot

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Clean returns a copy of obj without the fields that belong to the source cluster:
//
//   - status, and in metadata resourceVersion, generation, uid, selfLink, creationTimestamp,
//     deletionTimestamp, deletionGracePeriodSeconds, managedFields, ownerReferences and
//     finalizers;
//   - the annotations kubectl.kubernetes.io/last-applied-configuration and
//     deployment.kubernetes.io/revision;
//   - clusterIP and clusterIPs of a Service unless None, its healthCheckNodePort and the nodePort
//     of each port;
//   - the controller-uid labels of a Job without manualSelector, and their selector;
//   - creationTimestamp in the templates of workloads;
//   - spec.volumeName of a claim and spec.claimRef of a volume, if a controller bound them; the
//     uid and resourceVersion of a claimRef in any case; the annotations that controllers write
//     about bindings, for example pv.kubernetes.io/*;
//   - the token Secrets of a ServiceAccount;
//   - the caBundle of an object with an annotation for a controller that injects it;
//   - the fields that nobody set and that the API server of the hub filled in, if another cluster
//     must decide them by itself: spec.replicas of a Deployment, a StatefulSet, a ReplicaSet and
//     a ReplicationController, spec.ipFamilies and spec.ipFamilyPolicy of a Service,
//     spec.storageClassName of a claim and spec.ingressClassName of an Ingress.
//
// Clean finds the author of a field in metadata.managedFields and in the annotation of kubectl's
// last client-side apply. All fields of an object without managedFields count as set, because it
// was written by hand. A field also counts as set if its field manager created the object by
// another request than an apply, because such a manager owns the defaults, too.
//
// A map that becomes empty is dropped; a map that was empty before stays. Labels, other
// annotations and the rest of spec stay, also the spec.finalizers of a Namespace.
//
// The copy shares equal maps and lists with obj. Neither may be changed in place afterwards.
// Clean is idempotent.
func Clean(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out, _ := cleaning{}.clean(obj)
	return out
}

// cleaning holds the options of a capture for [Clean].
type cleaning struct {
	// carryDefaulted keeps the fields that nobody set.
	carryDefaulted bool
	// scaled has the objects, without their versions, whose replicas a selected autoscaler controls.
	scaled map[ID]bool
	// omitted counts the dropped fields that are not dropped on every cluster; nil counts nothing.
	omitted omissions
}

// clean is [Clean] with options; it also returns the object's ID.
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
		if path := cleanBundles(out, meta, id.Kind); path != "" {
			c.omit(id, BoundOnHub, path)
		}
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

// cleanManifest is [Clean] for an object from a manifest that no server has read. Values that a
// server could have chosen, such as a node port, are intentional there and stay.
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

// cleanJob drops the selector that the API server generated from the Job's uid, because another
// cluster refuses it and generates its own.
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
