package hub_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
)

// TestRunLeavesEventsAndMetrics: a run leaves Kubernetes Events, and the hub reports its
// health and its metrics.
func TestRunLeavesEventsAndMetrics(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy(gate)
	s.scheduled()
	s.run("a", "")
	s.approved("careq/NAME-a-s1")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.eventually("the Events", func() error {
		var missing []error
		for _, reason := range []string{"RunStarted", "StageStarted", "ApprovalRequested", "ApprovalAccepted", "StageCompleted", "RunCompleted"} {
			missing = append(missing, s.told("csur/NAME-a", reason))
		}
		return errors.Join(append(missing, s.told("crp/NAME", "SnapshotTaken"))...)
	})
	for name, handler := range map[string]http.Handler{"/healthz": s.served.Live(), "/readyz": s.served.Ready()} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, name, nil))
		if answer.Code != 200 || strings.TrimSpace(answer.Body.String()) != "ok" {
			t.Errorf("%s answers %d %s", name, answer.Code, answer.Body)
		}
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, want := range []string{`slipway_hub_events_total{type="RunCompleted"}`, `slipway_hub_syncs_total{kind="run",result="ok"}`, "slipway_hub_approval_seconds_count", "slipway_hub_cluster_update_seconds_count", "slipway_hub_leading 1"} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// TestT21EventsOfOneObjectAreBounded is threat T21: an invalid object that is written a hundred
// times does not cause a hundred Events.
func TestT21EventsOfOneObjectAreBounded(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  strategy: {type: External}`)
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "", "")
	for i := range 100 {
		s.patch("crp/NAME", fmt.Sprintf(`{metadata: {annotations: {n: "%d"}}}`, i))
	}
	s.stays("the Events are few", time.Second, func() error {
		if n := len(s.events("crp/NAME", "")); n > 30 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// TestAClusterThatTakesTooLongIsReportedAsStuck: after five minutes, here with an engine whose
// clock is late, the run names the cluster that it waits for, and the cluster names the reason.
func TestAClusterThatTakesTooLongIsReportedAsStuck(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.start("one", func(c *hub.Config) {
		c.Engine.Clock = func() time.Time { return time.Now().Add(-6 * time.Minute) }
	})
	w.place("v1")
	w.createText(strings.ReplaceAll(deployment, "NAME", "$NAME"))
	w.staged("")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.eventually("the run to say so", func() error {
		u, err := w.at("csur").Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status, text := conditionOf(u, "Progressing"); status != "False" || !strings.Contains(text, "UpdateRunStuck") || !strings.Contains(text, w.members[0].name) {
			return fmt.Errorf("Progressing is %s (%s)", status, text)
		}
		if all := strings.Join(messages(u.Object["status"]), "\n"); !strings.Contains(all, "Deployment") {
			return fmt.Errorf("nothing names the Deployment in\n%s", all)
		}
		return nil
	})
}

// TestHubRBACIsLeastPrivilege: the hub of the stories has the rights of
// manifests.HubRBAC. Everything works with read rights for the selected objects only, including
// approvals by policy. If one right is missing, the status reports that.
func TestHubRBACIsLeastPrivilege(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.mayWarn("the namespace of the hub can neither be read nor made")
	const user = "weak-hub"
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.grant(manifests.HubOptions{User: user, Namespace: w.config("").Namespace, Sources: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
	}})
	w.mayNot(user, "delete", "placement.kubernetes-fleet.io", "clusterstagedupdateruns", "")
	w.mayNot(user, "approve", "placement.kubernetes-fleet.io", "clusterapprovalrequests", "")
	w.mayNot(user, "get", "", "secrets", "default")
	w.mayNot(user, "delete", "", "configmaps", w.name)
	w.start("weak", func(c *hub.Config) { c.Rest = w.server.ConfigFor(user) })
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	w.createOn(w.members[0].client, w.parse(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`))
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: p, namespace: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: cm}]
  strategy: {type: External}`)
	w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: StagedUpdateStrategy, metadata: {name: s, namespace: $NAME},
  spec: {stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval, approval: {quorums: [{group: "system:masters", count: 1}]}}]}]}}`)
	w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: StagedUpdateRun, metadata: {name: r, namespace: $NAME}, spec: {placementName: p, stagedRolloutStrategyName: s, state: Run}}`)
	w.eventually("the approval", func() error {
		_, err := w.on(w.client, "areq", w.name).Patch(t.Context(), "r-before-all", mergePatch, []byte(approvalFile), metav1.PatchOptions{}, "status")
		return err
	})
	w.eventually("the member to have it", func() error { return w.holds(w.members[0], "v1") })
	if _, err := w.kube.RbacV1().ClusterRoles().Patch(t.Context(), "slipway-hub-source", mergePatch, []byte(`{"rules":[]}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.change("v2")
	w.patchIn("rp", "p", `{"spec":{"revisionHistoryLimit":5}}`)
	w.eventually("the status to tell what is missing", func() error {
		u, err := w.on(w.client, "rp", w.name).Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if all := strings.Join(messages(u.Object["status"]), "\n"); !strings.Contains(all, "configmaps") || !strings.Contains(all, user) {
			return errors.New(all)
		}
		return nil
	})
}

// grant gives a hub its rights, and waits until the API server knows them.
func (w *hubEnv) grant(o manifests.HubOptions) {
	w.t.Helper()
	objects, err := manifests.HubRBAC(o)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, u := range objects {
		gvr, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		if _, err := w.client.Resource(gvr).Namespace(u.GetNamespace()).Apply(w.t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.awaitRights(cmp.Or(o.User, "system:serviceaccount:"+o.Namespace+":slipway-hub"), o.Namespace)
}

// awaitRights waits until the API server has read the roles of a hub. A hub that starts earlier
// warns of requests that are forbidden.
func (w *hubEnv) awaitRights(user, namespace string) {
	w.t.Helper()
	w.eventually("the rights of "+user, func() error {
		return errors.Join(
			w.needs(user, "list", "cluster.kubernetes-fleet.io", "memberclusters", ""),
			w.needs(user, "update", "coordination.k8s.io", "leases", namespace),
		)
	})
}

// needs returns an error if a user does not have a right.
func (w *hubEnv) needs(user, verb, group, resource, namespace string) error {
	may, err := w.may(user, verb, group, resource, namespace)
	if err == nil && !may {
		err = fmt.Errorf("%s may not %s %s", user, verb, resource)
	}
	return err
}

// may reports whether a user has a right.
func (w *hubEnv) may(user, verb, group, resource, namespace string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace},
	}}
	review, err := w.kube.AuthorizationV1().SubjectAccessReviews().Create(context.WithoutCancel(w.t.Context()), review, metav1.CreateOptions{})
	return err == nil && review.Status.Allowed, err
}

// mayNot fails if a user has a right.
func (w *hubEnv) mayNot(user, verb, group, resource, namespace string) {
	w.t.Helper()
	if may, err := w.may(user, verb, group, resource, namespace); err != nil || may {
		w.t.Errorf("%s may %s %s: %v", user, verb, resource, err)
	}
}

func (w *hubEnv) patchIn(short, name, patch string) {
	w.t.Helper()
	if _, err := w.on(w.client, short, w.name).Patch(w.t.Context(), name, mergePatch, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// TestEventsOfARunAreReportedOnce: a hub that starts after another one reports no event of a run
// again, because the status has the number of reported events.
func TestEventsOfARunAreReportedOnce(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	one := w.start("one")
	w.place("v1")
	w.staged("")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.await("csur", w.name, "Succeeded", "True")
	told := func() int { return w.told("involvedObject.kind=ClusterStagedUpdateRun") }
	w.eventually("every event to be counted in the status", func() error {
		u, err := w.at("csur").Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		kept, _, _ := unstructured.NestedInt64(u.Object, "status", "observedEvents")
		history, err := one.Engine().Run(w.name).History(t.Context(), 0)
		if err != nil || kept != history.Next || kept == 0 {
			return fmt.Errorf("status.observedEvents is %d, the run has %d events: %v", kept, history.Next, err)
		}
		return nil
	})
	time.Sleep(time.Second) // Events are written in the background
	before := told()
	w.end(one)
	for _, name := range []string{"two", "three"} {
		next := w.start(name)
		w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `, namespace: $NAME}}`)
		w.run(w.name+"-"+name, "")
		w.await("csur", w.name+"-"+name, "Succeeded", "True")
		time.Sleep(time.Second)
		w.end(next)
	}
	if now := told(); now != before || before == 0 {
		t.Errorf("%d Events of the run were written at first, and %d after two more starts", before, now)
	}
}

// told returns the number of Events about the objects with the environment's name that match a
// field selector.
func (w *hubEnv) told(selector string) (n int) {
	w.t.Helper()
	list, err := w.kube.CoreV1().Events("").List(w.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + w.name + "," + selector})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		n += int(max(list.Items[i].Count, 1))
	}
	return n
}

// TestOmissionsAreReportedOnce: a hub that starts after another one does not report again which
// objects a placement leaves out.
func TestOmissionsAreReportedOnce(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	w.kubectlApply("server", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: $NAME}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:1"}]}}
`)
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: a, namespace: $NAME}
data:
  cm.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: again}}
  more.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: $NAME}, data: {key: v1}}
`)
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy: {placementType: PickAll}
  strategy: {type: RollingUpdate}
`)
	one := w.start("one")
	const leftOut = "reason=LeftOut"
	w.eventually("both Events", func() error {
		if n := w.told(leftOut); n != 2 {
			return fmt.Errorf("%d Events", n)
		}
		return nil
	})
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.end(one)
	two := w.start("two")
	defer w.end(two)
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: $NAME}}`)
	w.eventually("the change on the member", func() error {
		_, err := w.members[0].client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(w.name).Get(t.Context(), "later", metav1.GetOptions{})
		return err
	})
	time.Sleep(time.Second) // Events are written in the background
	if n := w.told(leftOut); n != 2 {
		t.Errorf("%d Events after another start, want 2", n)
	}
}
