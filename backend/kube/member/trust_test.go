package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// onMember returns an object as a member has it.
func onMember(t *testing.T, c backend.Conn, id snapshot.ID) *unstructured.Unstructured {
	t.Helper()
	obj, err := c.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return obj
}

// writeAs writes an object with another field manager than the engine's.
func writeAs(t *testing.T, c backend.Conn, manager string, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	got, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: manager})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// forge writes into the ledger of a placement that it created objects.
func forge(t *testing.T, c backend.Conn, placement string, victims ...snapshot.ID) {
	t.Helper()
	cm := onMember(t, c, snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "slipway-system", Name: placement})
	text, _, _ := unstructured.NestedString(cm.Object, "data", "ledger")
	var l map[string]any
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	objects, _ := l["objects"].([]any)
	objects = slices.DeleteFunc(objects, func(o any) bool {
		m, _ := o.(map[string]any)
		return slices.ContainsFunc(victims, func(id snapshot.ID) bool { return m["kind"] == id.Kind && m["name"] == id.Name })
	})
	for _, id := range victims {
		o := map[string]any{"version": id.Version, "kind": id.Kind, "name": id.Name, "uid": string(onMember(t, c, id).GetUID())}
		if id.Group != "" {
			o["group"] = id.Group
		}
		if id.Namespace != "" {
			o["namespace"] = id.Namespace
		}
		objects = append(objects, o)
	}
	l["objects"] = objects
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	writeAs(t, c, "intruder", configMap("slipway-system", placement, "ledger", string(b)))
}

// attempt creates a run that tries each cluster once, and returns how it ended.
func (r *rollout) attempt(name string) fleet.Status {
	r.t.Helper()
	once := stages.Strategy{Attempts: 1, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	if _, err := r.engine.CreateRun(r.t.Context(), fleet.RunSpec{Name: name, Placement: r.name, Strategy: once}); err != nil {
		r.t.Fatal(err)
	}
	return r.wait(name)
}

// reasons is all that a run says of its clusters.
func reasons(s fleet.Status) string {
	var all []string
	for _, x := range s.Run.Form(runstate.Key{}).Unsuccessful {
		all = append(all, x.Reason)
	}
	return strings.Join(all, "\n")
}

// released returns the released objects in the events of a run.
func (r *rollout) released(run string) string {
	r.t.Helper()
	h, err := r.engine.Run(run).History(r.t.Context(), 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, e := range h.Events {
		if e.Type == stages.ObjectsReleased {
			all = append(all, e.Cluster+": "+e.Message)
		}
	}
	return strings.Join(all, "\n")
}

// A forged ledger on a member claims that the placement created foreign objects, with the right
// uids. The next run and the deletion of the placement keep all of them.
func TestAForgedLedgerHasNothingDeletedOnAMember(t *testing.T) {
	s := clusters.Server(t, "two")
	ns, team := s.Namespace(t), s.Namespace(t)
	c := connTo(t, s)
	r := newRollout(t, ns, s.Config(), placement.Cluster{Name: "one"})
	r.start()

	secret := configMap(team, "theirs", "password", "eA==")
	secret.SetKind("Secret")
	role := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": team}, "rules": []any{},
	}}
	taken := configMap(ns, "taken", "v", "theirs")
	victims := []snapshot.ID{snapshot.IDOf(secret), snapshot.IDOf(role), snapshot.IDOf(taken)}
	for _, obj := range []*unstructured.Unstructured{secret, role, taken} {
		writeAs(t, c, "team", obj)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), victims[1], backend.DeleteOptions{}) })
	system := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "extension-apiserver-authentication"}
	namespace := snapshot.ID{Version: "v1", Kind: "Namespace", Name: "kube-system"}
	survive := func(when string) {
		t.Helper()
		for _, id := range append(slices.Clone(victims), system, namespace) {
			if obj := onMember(t, c, id); obj.GetDeletionTimestamp() != nil {
				t.Errorf("%s: %s is being deleted", when, id)
			}
		}
	}

	r.put(configMap(ns, "a"), configMap(ns, "b"), configMap(ns, "taken", "v", "ours"))
	if status := r.run("first"); status.Run.State != stages.Completed {
		t.Fatal(r.explain("first"))
	}
	forge(t, c, ns, victims...)
	r.put(configMap(ns, "a"))
	if status := r.run("second"); status.Run.State != stages.Completed {
		t.Fatal(r.explain("second"))
	}
	survive("a run that prunes")
	if _, err := c.Get(t.Context(), snapshot.IDOf(configMap(ns, "b"))); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("what the placement created is to be deleted: %v", err)
	}
	for _, id := range victims {
		if told := r.released("second"); !strings.Contains(told, id.String()) {
			t.Errorf("%s was given up and not told: %q", id, told)
		}
	}

	for i, id := range []snapshot.ID{system, namespace} {
		forge(t, c, ns, id)
		run := []string{"third", "fourth"}[i]
		if status := r.attempt(run); status.Run.State == stages.Completed || !strings.Contains(reasons(status), "never placed") {
			t.Errorf("a ledger with %s: %s", id, r.explain(run))
		}
		survive("a ledger with " + id.String())
	}

	// The ledger is deleted, as the error asks for, and forged again.
	ledger := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "slipway-system", Name: ns}
	if err := c.Delete(t.Context(), ledger, backend.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if status := r.run("fifth"); status.Run.State != stages.Completed {
		t.Fatal(r.explain("fifth"))
	}
	forge(t, c, ns, append(slices.Clone(victims), snapshot.IDOf(configMap(ns, "a")))...)
	if err := r.engine.Placement(ns).Delete(t.Context(), fleet.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.gone()
	survive("the deletion of the placement")
	onMember(t, c, snapshot.IDOf(configMap(ns, "a"))) // since the ledger was deleted, nothing proves that the placement created it
}

// gone waits until the placement is deleted.
func (r *rollout) gone() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	f, err := r.engine.Placement(r.name).Follow("")
	if err != nil {
		r.t.Fatal(err)
	}
	for ev, err := range f.Events(ctx) {
		if err != nil {
			r.t.Fatal(err)
		}
		if ev.Type == stages.PlacementDeleted {
			return
		}
	}
	r.t.Fatal("the placement is not deleted")
}

// A server answers 500 for an object that it cannot decode. This counts as a refusal, and its
// message contains nothing of the object.
func TestUndecodableObjectsAreRefused(t *testing.T) {
	s := clusters.Server(t, "two")
	ns := s.Namespace(t)
	c := connTo(t, s)
	const hidden = "hunter2!"
	secret, binary, typed := configMap(ns, "a", "k", hidden), configMap(ns, "b"), configMap(ns, "c")
	secret.SetKind("Secret")
	binary.Object["binaryData"] = map[string]any{"k": hidden}
	typed.Object["data"] = map[string]any{"k": []any{hidden}}
	for _, obj := range []*unstructured.Unstructured{secret, binary, typed} {
		_, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: "test"})
		if !errors.Is(err, backend.ErrPermanent) || strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: %v", obj.GetKind(), err)
		}
	}
}

// A webhook that judges one object does not answer, which the member answers with 500.
// The other objects of its phase are applied, later phases once it is there.
func TestFailingWebhookBlocksNoOtherObject(t *testing.T) {
	s := clusters.Server(t, "two")
	ns := s.Namespace(t)
	c := connTo(t, s)
	// Secrets are applied before ConfigMaps, and Services in a later phase than both.
	secret, service := configMap(ns, "judged"), configMap(ns, "later")
	secret.SetKind("Secret")
	service.SetKind("Service")
	service.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80), "protocol": "TCP"}}}
	delete(service.Object, "data")
	secret.SetLabels(map[string]string{"judged": ns})
	webhook := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": ns},
		"webhooks": []any{map[string]any{
			"name": "judge.example.com", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
			"objectSelector": map[string]any{"matchLabels": map[string]any{"judged": ns}},
			"clientConfig":   map[string]any{"url": "https://127.0.0.1:1/"},
			"rules": []any{map[string]any{
				"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"secrets"},
			}},
		}},
	}}
	writeAs(t, c, "team", webhook)
	t.Cleanup(func() {
		_ = c.Delete(context.WithoutCancel(t.Context()), snapshot.IDOf(webhook), backend.DeleteOptions{})
	})
	judging := func() bool { // a server learns of a webhook a little later
		probe := secret.DeepCopy()
		probe.SetName("probe")
		_, err := c.Apply(t.Context(), probe, backend.ApplyOptions{Manager: "test"})
		if errors.Is(err, backend.ErrPermanent) {
			t.Fatalf("a webhook that does not answer is taken for a refusal: %v", err)
		}
		return err != nil
	}
	for !judging() {
	}

	r := newRollout(t, ns, s.Config(), placement.Cluster{Name: "one"})
	r.start()
	r.put(secret, configMap(ns, "other"), service)
	r.begin("first")
	comes(t, c, snapshot.IDOf(configMap(ns, "other")))
	if _, err := c.Get(t.Context(), snapshot.IDOf(service)); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("what may need the object was not kept back: %v", err)
	}
	if err := c.Delete(t.Context(), snapshot.IDOf(webhook), backend.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if status := r.wait("first"); status.Run.State != stages.Completed {
		t.Error(r.explain("first"))
	}
	onMember(t, c, snapshot.IDOf(service))
}

// comes waits for an object.
func comes(t *testing.T, c backend.Conn, id snapshot.ID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, err := range backend.WatchConn(ctx, c, []snapshot.ID{id}, time.Second) {
		if err != nil {
			t.Fatalf("%s does not come: %v", id, err)
		}
		if _, err := c.Get(ctx, id); err == nil {
			return
		}
	}
}
