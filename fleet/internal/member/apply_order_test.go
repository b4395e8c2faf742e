package member

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// bare returns an object with an identity only.
func bare(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// widgetDefinition defines Widget in the group example.com.
func widgetDefinition() *unstructured.Unstructured {
	crd := bare("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com")
	crd.Object["spec"] = map[string]any{"group": "example.com", "names": map[string]any{"kind": "Widget", "plural": "widgets"}}
	return crd
}

func conditions(all ...map[string]any) map[string]any {
	list := make([]any, len(all))
	for i := range all {
		list[i] = all[i]
	}
	return map[string]any{"conditions": list}
}

var (
	isEstablished  = conditions(map[string]any{"type": "Established", "status": "True"})
	notEstablished = conditions(map[string]any{"type": "Established", "status": "False"})
	refusedNames   = conditions(map[string]any{"type": "NamesAccepted", "status": "False", "message": "the plural widgets is taken"})
)

// isAvailable returns the status of an available Deployment with one replica.
func isAvailable(obj *unstructured.Unstructured) map[string]any {
	status := conditions(map[string]any{"type": "Available", "status": "True"})
	for _, f := range []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"} {
		status[f] = int64(1)
	}
	status["observedGeneration"] = obj.GetGeneration()
	return status
}

// operator returns an operator with its own kind; its objects cover every phase.
func operator() []*unstructured.Unstructured {
	deployment := bare("apps/v1", "Deployment", "app", "operator")
	return []*unstructured.Unstructured{
		bare("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "guard"),
		bare("example.com/v1", "Widget", "app", "small"),
		deployment, configMap("app", "settings", "1"),
		bare("rbac.authorization.k8s.io/v1", "ClusterRole", "", "operator"),
		bare("v1", "ServiceAccount", "app", "operator"), widgetDefinition(), namespaceObject("app"),
	}
}

// newOperatorKit has the operator as revision O, on a member that refuses Widgets until their
// definition is established.
func newOperatorKit(t *testing.T, status map[string]any) *kit {
	t.Helper()
	k := newKit(t)
	k.revision("O", operator()...)
	crd := snapshot.IDOf(widgetDefinition())
	k.member.React(func(obj *unstructured.Unstructured) map[string]any {
		switch {
		case snapshot.IDOf(obj) == crd:
			return status
		case obj.GetKind() == "Deployment":
			return isAvailable(obj)
		}
		return nil
	})
	k.member.Refuse(func(obj *unstructured.Unstructured) error {
		if obj.GetKind() != "Widget" {
			return nil
		}
		if live, err := k.member.Get(crd); err == nil {
			if done, _ := established(live); done {
				return nil
			}
		}
		return errors.New("no such kind")
	})
	return k
}

// writes returns the writes to the member, without ledgers and statuses.
func (k *kit) writes(op string) (out []string) {
	for _, w := range k.member.Log() {
		if w.Op == op && !reserved(w.ID) {
			out = append(out, w.ID.Kind)
		}
	}
	return out
}

var operatorOrder = []string{
	"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ConfigMap", "Deployment", "Widget", "ValidatingWebhookConfiguration",
}

// TestObjectsAreAppliedByDependency checks that objects are applied after the objects that they
// need, and removed before them.
func TestObjectsAreAppliedByDependency(t *testing.T) {
	k := newOperatorKit(t, isEstablished)
	k.member.Record(true)
	if r := k.place("O", 1, "r1"); !r.Applied {
		t.Fatalf("report %+v", r)
	}
	if diff := cmp.Diff(operatorOrder, k.writes("create")); diff != "" {
		t.Errorf("the order of application (-want +got):\n%s", diff)
	}
	k.member.Record(false)
	k.member.Record(true)
	if r := k.place("", 1, "r2"); !r.Applied {
		t.Fatalf("report %+v", r)
	}
	var want []string
	for _, kind := range operatorOrder {
		want = append([]string{kind}, want...)
	}
	if diff := cmp.Diff(want, k.writes("delete")); diff != "" {
		t.Errorf("the order of removal (-want +got):\n%s", diff)
	}
}

// TestAnObjectWaitsForItsDefinition checks that an object waits in the same update until its
// definition is established.
func TestAnObjectWaitsForItsDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newOperatorKit(t, notEstablished)
		k.member.Record(true)
		go func() {
			time.Sleep(2 * time.Second)
			if err := k.member.SetStatus(snapshot.IDOf(widgetDefinition()), isEstablished); err != nil {
				t.Error(err)
			}
		}()
		if r := k.place("O", 1, "r1"); !r.Applied {
			t.Fatalf("report %+v", r)
		}
		if diff := cmp.Diff(operatorOrder, k.writes("create")); diff != "" {
			t.Errorf("the order of application (-want +got):\n%s", diff)
		}
	})
}

// TestADefinitionThatIsNotEstablished checks that an update reports a definition that does not
// become established, applies nothing of later phases, and later continues from there.
func TestADefinitionThatIsNotEstablished(t *testing.T) {
	for name, tc := range map[string]struct {
		status  map[string]any
		message string
		within  time.Duration
	}{
		"slow":    {notEstablished, "CustomResourceDefinition.v1.apiextensions.k8s.io widgets.example.com is not established, which Widget.v1.example.com app/small needs", 6 * time.Second},
		"unknown": {map[string]any{}, "widgets.example.com is not established, which Widget.v1.example.com app/small needs", 6 * time.Second},
		"refused": {refusedNames, "needs: the plural widgets is taken", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newOperatorKit(t, tc.status)
				k.member.Record(true)
				from := time.Now()
				r := k.place("O", 1, "r1")
				if r.Applied || !strings.HasSuffix(r.Message, tc.message) {
					t.Errorf("report %+v, want one that says %q", r, tc.message)
				}
				if took := time.Since(from); took > tc.within {
					t.Errorf("the update took %s, want at most %s", took, tc.within)
				}
				if diff := cmp.Diff(operatorOrder[:6], k.writes("create")); diff != "" {
					t.Errorf("applied (-want +got):\n%s", diff)
				}
				if l := k.ledger(); !l.open() {
					t.Errorf("the ledger proves %s", l.Revision)
				}
				if err := k.member.SetStatus(snapshot.IDOf(widgetDefinition()), isEstablished); err != nil {
					t.Fatal(err)
				}
				if r := k.place("O", 1, "r1"); !r.Applied {
					t.Errorf("report %+v", r)
				}
				if diff := cmp.Diff(operatorOrder, k.writes("create")); diff != "" {
					t.Errorf("the order of application (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestADefinitionIsWaitedForOnce checks that several objects of a kind wait together: an update
// waits for a definition once.
func TestADefinitionIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newOperatorKit(t, notEstablished)
		k.revision("O", append(operator(), bare("example.com/v1", "Widget", "app", "large"))...)
		from := time.Now()
		if r := k.place("O", 1, "r1"); r.Applied {
			t.Errorf("report %+v", r)
		}
		if took := time.Since(from); took > establishMost+time.Second {
			t.Errorf("the update took %s, want the wait for one definition, %s", took, establishMost)
		}
	})
}

// TestADefinitionThatIsRefused checks that a definition that the member refuses is a problem with
// its name and kind. Objects that do not need it are applied. A webhook may need anything.
func TestADefinitionThatIsRefused(t *testing.T) {
	k := newOperatorKit(t, nil)
	k.member.Refuse(func(obj *unstructured.Unstructured) error {
		if obj.GetKind() == "CustomResourceDefinition" || obj.GetKind() == "Widget" {
			return errors.New("not admitted")
		}
		return nil
	})
	_, err := k.leader(nil).Update(t.Context(), k.want("O", 1, "r1"))
	for _, want := range []string{"widgets.example.com", "Widget.v1.example.com app/small"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that names %s", err, want)
		}
	}
	if _, err := k.member.Get(snapshot.IDOf(operator()[2])); err != nil {
		t.Errorf("the Deployment does not need it: %v", err)
	}
	if k.has(snapshot.IDOf(operator()[0])) {
		t.Error("the webhook is there, and something before it is not")
	}
}

// TestRemovalWaitsForTerminatingObjects checks that an object is not removed while another object
// that may need it is being deleted. Here the operator must stay, because it removes the finalizer
// of its Widget.
func TestRemovalWaitsForTerminatingObjects(t *testing.T) {
	k := newOperatorKit(t, isEstablished)
	k.place("O", 1, "r1")
	widget, err := k.member.Get(snapshot.IDOf(operator()[1]))
	if err != nil {
		t.Fatal(err)
	}
	widget.SetFinalizers([]string{"example.com/operator"})
	k.exists(widget)
	r := k.place("", 1, "r2")
	if want := "Widget.v1.example.com app/small is still there, its deletion waits for finalizer example.com/operator; what it may need goes once it is gone"; r.Applied || r.Message != want {
		t.Errorf("report %+v, want one that says %q", r, want)
	}
	if _, err := k.member.Get(snapshot.IDOf(operator()[0])); err == nil {
		t.Error("the webhook needs nothing that stays, and is still there")
	}
	for _, obj := range operator()[2:] {
		if live, err := k.member.Get(snapshot.IDOf(obj)); err != nil || isTerminating(live) {
			t.Errorf("%s is gone before the Widget: %v", snapshot.IDOf(obj), err)
		}
	}
	if widget, err = k.member.Get(snapshot.IDOf(widget)); err != nil {
		t.Fatal(err)
	}
	widget.SetFinalizers(nil)
	k.exists(widget)
	if r := k.place("", 1, "r2"); !r.Applied || !r.Current {
		t.Errorf("report %+v", r)
	}
	wantObjects(t, k, k.expected("", false))
}

// TestPruneWaitsForTerminatingObjects checks the same order for objects that leave a revision: a
// ConfigMap with a finalizer keeps the role that it may need, and the revision is not proven.
func TestPruneWaitsForTerminatingObjects(t *testing.T) {
	k := newOperatorKit(t, isEstablished)
	k.revision("P", namespaceObject("app"))
	k.place("O", 1, "r1")
	settings, err := k.member.Get(configMapID("app", "settings"))
	if err != nil {
		t.Fatal(err)
	}
	settings.SetFinalizers([]string{"example.com/backup"})
	k.exists(settings)
	if r := k.place("P", 1, "r2"); r.Applied || !strings.HasPrefix(r.Message, "ConfigMap.v1 app/settings is still there, its deletion waits for finalizer example.com/backup") {
		t.Errorf("report %+v", r)
	}
	if _, err := k.member.Get(snapshot.IDOf(operator()[4])); err != nil {
		t.Errorf("the role: %v", err)
	}
	if settings, err = k.member.Get(configMapID("app", "settings")); err != nil {
		t.Fatal(err)
	}
	settings.SetFinalizers(nil)
	k.exists(settings)
	if r := k.place("P", 1, "r2"); !r.Applied || r.Revision != k.revs["P"] {
		t.Errorf("report %+v", r)
	}
}

// crashingConn fails every call after the first few, as if its engine had died.
type crashingConn struct {
	backend.Conn
	left *int
}

var errCrashed = errors.New("crashed")

func (c crashingConn) dead() bool { *c.left--; return *c.left < 0 }

func (c crashingConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if c.dead() {
		return nil, errCrashed
	}
	return c.Conn.Get(ctx, id)
}

func (c crashingConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if c.dead() {
		return nil, errCrashed
	}
	return c.Conn.Apply(ctx, obj, o)
}

func (c crashingConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	if c.dead() {
		return errCrashed
	}
	return c.Conn.Delete(ctx, id, o)
}

// TestApplyOrderSurvivesACrashAtEveryCall checks that the order holds over the writes of an engine
// that dies at any call and of its successor.
func TestApplyOrderSurvivesACrashAtEveryCall(t *testing.T) {
	reversed := slices.Clone(operatorOrder)
	slices.Reverse(reversed)
	for calls := 1; ; calls++ {
		k := newOperatorKit(t, isEstablished)
		k.member.Record(true)
		completed := 0
		for i, rev := range []string{"O", ""} {
			left := calls
			dying := k.leader(func(c backend.Conn) backend.Conn { return crashingConn{c, &left} })
			if _, err := dying.Update(t.Context(), k.want(rev, int64(2*i+1), "r")); err == nil {
				completed++
			}
			if r := k.must(k.leader(nil), k.want(rev, int64(2*i+2), "r")); !r.Applied {
				t.Fatalf("after %d calls: report %+v", calls, r)
			}
		}
		if diff := cmp.Diff([][]string{operatorOrder, reversed}, [][]string{k.writes("create"), k.writes("delete")}); diff != "" {
			t.Errorf("a crash after %d calls (-want +got):\n%s", calls, diff)
		}
		if completed == 2 {
			return
		}
	}
}
