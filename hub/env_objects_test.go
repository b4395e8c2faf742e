package hub_test

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

const mergePatch = types.MergePatchType

// kind is a kind that tests use, with kubectl's short name.
type kind struct {
	short      string
	kind       string
	gvr        schema.GroupVersionResource
	namespaced bool
}

// kinds returns the kinds of the Fleet API, in an order that allows their deletion.
func kinds() []kind {
	return []kind{
		fleetKind("csur", "ClusterStagedUpdateRun", "clusterstagedupdateruns"), fleetKind("sur", "StagedUpdateRun", "stagedupdateruns"),
		fleetKind("careq", "ClusterApprovalRequest", "clusterapprovalrequests"), fleetKind("areq", "ApprovalRequest", "approvalrequests"),
		fleetKind("crpe", "ClusterResourcePlacementEviction", "clusterresourceplacementevictions"),
		fleetKind("crpdb", "ClusterResourcePlacementDisruptionBudget", "clusterresourceplacementdisruptionbudgets"),
		fleetKind("crp", "ClusterResourcePlacement", "clusterresourceplacements"), fleetKind("rp", "ResourcePlacement", "resourceplacements"),
		// crb, too, which is a ClusterRoleBinding here
		fleetKind("binding", "ClusterResourceBinding", "clusterresourcebindings"),
		fleetKind("crs", "ClusterResourceSnapshot", "clusterresourcesnapshots"), fleetKind("rss", "ResourceSnapshot", "resourcesnapshots"),
		fleetKind("csps", "ClusterSchedulingPolicySnapshot", "clusterschedulingpolicysnapshots"),
		fleetKind("sps", "SchedulingPolicySnapshot", "schedulingpolicysnapshots"),
		fleetKind("csus", "ClusterStagedUpdateStrategy", "clusterstagedupdatestrategies"), fleetKind("sus", "StagedUpdateStrategy", "stagedupdatestrategies"),
		fleetKind("cro", "ClusterResourceOverride", "clusterresourceoverrides"), fleetKind("ro", "ResourceOverride", "resourceoverrides"),
		fleetKind("cros", "ClusterResourceOverrideSnapshot", "clusterresourceoverridesnapshots"), fleetKind("ros", "ResourceOverrideSnapshot", "resourceoverridesnapshots"),
		fleetKind("cre", "ClusterResourceEnvelope", "clusterresourceenvelopes"), fleetKind("re", "ResourceEnvelope", "resourceenvelopes"),
		{"mc", "MemberCluster", schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}, false},
	}
}

func fleetKind(short, name, plural string) kind {
	gvr := schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: plural}
	return kind{short, name, gvr, !strings.HasPrefix(name, "Cluster")}
}

// others returns further kinds that tests use.
func others() []kind {
	return []kind{
		{"crps", "ClusterResourcePlacementStatus", schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: "clusterresourceplacementstatuses"}, true},
		{"ns", "Namespace", schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, false},
		{"cm", "ConfigMap", schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, true},
		{"secret", "Secret", schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, true},
		{"event", "Event", schema.GroupVersionResource{Version: "v1", Resource: "events"}, true},
		{"deploy", "Deployment", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true},
		{"cronjob", "CronJob", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, true},
		{"quota", "ResourceQuota", schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}, true},
		{"clusterrole", "ClusterRole", schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, false},
		{"crb", "ClusterRoleBinding", schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, false},
		{"crd", "CustomResourceDefinition", schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, false},
	}
}

// kindOf finds a kind by its short name or its name.
func (w *hubEnv) kindOf(name string) kind {
	w.t.Helper()
	for _, k := range append(kinds(), others()...) {
		if k.short == name || k.kind == name {
			return k
		}
	}
	w.t.Fatalf("tests know no kind %q: add it to others", name)
	return kind{}
}

// on returns the objects of a kind, by its short name, in a namespace or none, at
// the hub or a member.
func (w *hubEnv) on(client dynamic.Interface, short, namespace string) dynamic.ResourceInterface {
	w.t.Helper()
	return client.Resource(w.kindOf(short).gvr).Namespace(namespace)
}

// at returns the objects of a cluster-scoped kind on the hub.
func (w *hubEnv) at(short string) dynamic.ResourceInterface {
	w.t.Helper()
	return w.on(w.client, short, "")
}

// create creates an object on the hub. It retries, because a server that was just started may not
// be ready.
func (w *hubEnv) create(obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	return w.createOn(w.client, obj)
}

func (w *hubEnv) createOn(client dynamic.Interface, obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	resource := w.on(client, obj.GetKind(), obj.GetNamespace())
	var made *unstructured.Unstructured
	var err error
	w.eventually("creating "+obj.GetName(), func() error {
		made, err = resource.Create(w.t.Context(), obj, metav1.CreateOptions{FieldManager: "test"})
		if apierrors.IsServiceUnavailable(err) {
			return err
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// createText creates the object in a YAML text. In the text, $NAME stands for the environment's
// name.
func (w *hubEnv) createText(text string) *unstructured.Unstructured {
	w.t.Helper()
	return w.create(w.parse(text))
}

func (w *hubEnv) parse(text string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "$NAME", w.name)), &u.Object); err != nil {
		w.t.Fatal(err)
	}
	return u
}

// patch changes an object of the hub with a merge patch; subresources are as in client-go. It
// retries, because a server that was just started may not be ready.
func (w *hubEnv) patch(short, name, patch string, subresources ...string) {
	w.t.Helper()
	w.eventually("patching "+name, func() error {
		_, err := w.at(short).Patch(w.t.Context(), name, mergePatch, []byte(patch), metav1.PatchOptions{FieldManager: "test"}, subresources...)
		return err
	})
}

func memberOf(name string, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster", "spec": map[string]any{},
	}}
	u.SetName(name)
	u.SetLabels(labels)
	return u
}

// place creates a namespace on the hub with the environment's name and a ConfigMap cm whose key is
// value. It also creates a placement of the same name that picks all members and is rolled out only
// by runs.
func (w *hubEnv) place(value string) {
	w.t.Helper()
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createText(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: %q}}`, value))
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy: {placementType: PickAll}
  strategy: {type: External}
`)
}

// change changes the ConfigMap of place.
func (w *hubEnv) change(value string) {
	w.t.Helper()
	if _, err := w.on(w.client, "cm", w.name).Patch(w.t.Context(), "cm", mergePatch, fmt.Appendf(nil, `{"data":{"key":%q}}`, value), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// staged creates the strategy with the stages canary and prod, with the environment's name. gate is
// the type of the task after canary; empty means none.
func (w *hubEnv) staged(gate string) {
	w.t.Helper()
	w.gated = gate == "Approval"
	tasks := ""
	if gate != "" {
		tasks = "afterStageTasks: [{type: " + gate + "}]"
	}
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: $NAME}
spec:
  stages:
  - name: canary
    labelSelector: {matchLabels: {stage: canary}}
    ` + tasks + `
  - name: prod
    labelSelector: {matchLabels: {stage: prod}}
    maxConcurrency: 2
`)
}

// run creates a run of the placement with the strategy, both with the environment's name. An empty
// index means the latest snapshot.
func (w *hubEnv) run(name, index string) {
	w.t.Helper()
	w.create(w.runOf(name, index))
}

func (w *hubEnv) runOf(name, index string) *unstructured.Unstructured {
	w.t.Helper()
	obj := w.parse(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: ` + name + `}
spec: {placementName: $NAME, stagedRolloutStrategyName: $NAME, state: Run}
`)
	if index != "" {
		obj.Object["spec"].(map[string]any)["resourceSnapshotIndex"] = index
	}
	return obj
}

// approve answers a request as the tutorial does.
func (w *hubEnv) approve(request string) {
	w.t.Helper()
	w.patch("careq", request, approval, "status")
}

const approval = `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"lgtm","message":"lgtm","lastTransitionTime":"2024-01-01T00:00:00Z","observedGeneration":1}]}}`

// condition returns an error unless an object of the hub has a condition with the status, such as
// "True" or "False".
func (w *hubEnv) condition(short, name, condition, status string) error {
	obj, err := w.at(short).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got, text := conditionOf(obj, condition); got != status {
		return fmt.Errorf("condition %s of %s %s is %q (%s), not %q", condition, short, name, got, text, status)
	}
	return nil
}

// conditionOf returns the status of a condition, and its reason and message.
func conditionOf(obj *unstructured.Unstructured, name string) (status, text string) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == name {
			return fmt.Sprint(c["status"]), fmt.Sprintf("%v: %v", c["reason"], c["message"])
		}
	}
	return "", ""
}

// await waits for a condition of an object of the hub.
func (w *hubEnv) await(short, name, condition, status string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s %s: %s=%s", short, name, condition, status), func() error {
		return w.condition(short, name, condition, status)
	})
}

// holds returns an error unless a member has the ConfigMap of place with value; "" means that it
// must not exist.
func (w *hubEnv) holds(m *member, value string) error {
	obj, err := w.on(m.client, "cm", w.name).Get(w.t.Context(), "cm", metav1.GetOptions{})
	if apierrors.IsNotFound(err) && value == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("member %s: %w", m.name, err)
	}
	if got, _, _ := unstructured.NestedString(obj.Object, "data", "key"); got != value {
		return fmt.Errorf("member %s has %q, not %q", m.name, got, value)
	}
	return nil
}

// allHold returns an error unless all members hold value.
func (w *hubEnv) allHold(value string) error {
	for _, m := range w.members {
		if err := w.holds(m, value); err != nil {
			return err
		}
	}
	return nil
}

// state prints the objects of the hub, for a test that failed.
func (w *hubEnv) state() string {
	var out strings.Builder
	for _, short := range []string{"crp", "csur", "careq", "mc"} {
		list, err := w.at(short).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			fmt.Fprintln(&out, short, err)
			continue
		}
		for i := range list.Items {
			list.Items[i].SetManagedFields(nil)
			text, _ := yaml.Marshal(list.Items[i].Object)
			fmt.Fprintf(&out, "---\n%s", text)
		}
	}
	return out.String()
}
