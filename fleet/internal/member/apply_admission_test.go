package member

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// webhook returns a configuration with one webhook, whose name ends in .example.com and which fails
// closed.
func webhook(name, path string) *unstructured.Unstructured {
	obj := bare("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", name)
	obj.Object["webhooks"] = []any{map[string]any{
		"name": name + ".example.com", "failurePolicy": "Fail",
		"clientConfig": map[string]any{"service": map[string]any{"namespace": "app", "name": "hook", "path": path}},
	}}
	return obj
}

func hookDeployment(image string) *unstructured.Unstructured {
	d := bare("apps/v1", "Deployment", "app", "hook")
	d.Object["spec"] = map[string]any{"replicas": int64(1), "template": map[string]any{"image": image}}
	return d
}

var deploymentID = snapshot.IDOf(hookDeployment(""))

// settle gives the Deployment a status for its current generation.
func (k *kit) settle(up bool, more ...any) {
	k.t.Helper()
	live, err := k.member.Get(deploymentID)
	if err != nil {
		k.t.Fatal(err)
	}
	n := int64(0)
	available := "False"
	if up {
		n, available = 1, "True"
	}
	status := map[string]any{
		"observedGeneration": live.GetGeneration(), "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": n, "availableReplicas": n,
		"conditions": append([]any{map[string]any{"type": "Available", "status": available}}, more...),
	}
	if err := k.member.SetStatus(deploymentID, status); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) has(id snapshot.ID) bool {
	_, err := k.member.Get(id)
	return err == nil
}

const waitsForHook = "waits until everything that is applied before it is healthy: Deployment.v1.apps app/hook: "

// newHookKit returns a kit with revision 1, a server and its webhook, and with revision 2, which
// has another image and another path.
func newHookKit(t *testing.T) *kit {
	k := newKit(t)
	k.member.ManagedFields(true)
	app := namespaceObject("app")
	k.revision("1", app, hookDeployment("1"), webhook("guard", "/1"))
	k.revision("2", app, hookDeployment("2"), webhook("guard", "/2"))
	return k
}

func TestAdmissionObjectsWaitForTheirServer(t *testing.T) {
	for _, kind := range []string{
		"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy",
	} {
		k := newKit(t)
		obj := bare("admissionregistration.k8s.io/v1", kind, "", "guard")
		k.revision("1", namespaceObject("app"), hookDeployment("1"), obj)
		u := k.leader(nil)
		for range 3 {
			r := k.must(u, k.want("1", 1, "r1"))
			if r.Applied || r.Failed || !strings.HasPrefix(r.Message, snapshot.IDOf(obj).String()+" "+waitsForHook) {
				t.Errorf("%s: report %+v", kind, r)
			}
		}
		if k.has(snapshot.IDOf(obj)) {
			t.Errorf("%s is there before its server is healthy", kind)
		}
		k.settle(true)
		if r := k.must(u, k.want("1", 1, "r1")); !r.Applied || !r.Healthy || !k.has(snapshot.IDOf(obj)) {
			t.Errorf("%s: report %+v", kind, r)
		}
	}
}

// TestAdmissionObjectsOfAServerThatFails checks that a failed server fails the cluster at once,
// like without admission objects.
func TestAdmissionObjectsOfAServerThatFails(t *testing.T) {
	k := newHookKit(t)
	k.place("1", 1, "r1")
	k.settle(false, map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"})
	r := k.place("1", 1, "r1")
	if !r.Failed || r.Applied || !strings.Contains(r.Message, waitsForHook+"Progress deadline exceeded") {
		t.Errorf("report %+v", r)
	}
}

// TestAdmissionObjectsOfAServerThatIsRefused checks that the webhook of a refused server is not
// applied either.
func TestAdmissionObjectsOfAServerThatIsRefused(t *testing.T) {
	k := newHookKit(t)
	k.member.Refuse(func(obj *unstructured.Unstructured) error {
		if obj.GetKind() == "Deployment" {
			return errors.New("exceeded quota")
		}
		return nil
	})
	_, err := k.leader(nil).Update(t.Context(), k.want("1", 1, "r1"))
	if err == nil || !strings.Contains(err.Error(), "exceeded quota") || k.has(snapshot.IDOf(webhook("guard", ""))) {
		t.Errorf("error %v; the webhook is there: %v", err, k.has(snapshot.IDOf(webhook("guard", ""))))
	}
}

// TestAnUpdateOfAWebhook checks that an update of a webhook waits for the new server. If the old
// webhook keeps the server from starting, the webhook must be updated at once, because the server
// will never become healthy otherwise.
func TestAnUpdateOfAWebhook(t *testing.T) {
	path := func(k *kit) string {
		live, err := k.member.Get(snapshot.IDOf(webhook("guard", "")))
		if err != nil {
			k.t.Fatal(err)
		}
		hooks, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
		path, _, _ := unstructured.NestedString(hooks[0].(map[string]any), "clientConfig", "service", "path")
		return path
	}
	replicaFailure := func(message string) any {
		return map[string]any{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
	}
	for name, c := range map[string]struct {
		condition any
		at        string
	}{
		"starting":           {replicaFailure("exceeded quota"), "/1"},
		"another webhook":    {replicaFailure(`Internal error occurred: failed calling webhook "x.guard.example.com": refused`), "/1"},
		"its own webhook":    {replicaFailure(`Internal error occurred: failed calling webhook "guard.example.com": refused`), "/2"},
		"denied by it":       {replicaFailure(`admission webhook "guard.example.com" denied the request: no`), "/2"},
		"a hostile list":     {"x", "/1"},
		"a condition of any": {map[string]any{"message": int64(7)}, "/1"},
	} {
		k := newHookKit(t)
		k.place("1", 1, "r1")
		k.settle(true)
		k.place("1", 1, "r1")
		k.place("2", 2, "r2")
		k.settle(false, c.condition)
		k.place("2", 2, "r2")
		if got := path(k); got != c.at {
			t.Errorf("%s: the webhook is at %s, want %s", name, got, c.at)
		}
		k.settle(true)
		if r := k.place("2", 2, "r2"); !r.Healthy || path(k) != "/2" {
			t.Errorf("%s: report %+v, the webhook is at %s", name, r, path(k))
		}
	}
}

// TestAWebhookThatIsReplaced checks that an undesired admission object is removed after the new
// objects are applied. If it keeps their server from starting, it must be removed earlier.
func TestAWebhookThatIsReplaced(t *testing.T) {
	for message, gone := range map[string]bool{"starting": false, `failed calling webhook "guard.example.com": refused`: true} {
		k := newHookKit(t)
		k.revision("3", namespaceObject("app"), hookDeployment("3"), webhook("sentry", "/3"))
		k.place("1", 1, "r1")
		k.settle(true)
		k.place("1", 1, "r1")
		k.place("3", 2, "r2")
		k.settle(false, map[string]any{"type": "ReplicaFailure", "status": "True", "message": message})
		if r := k.place("3", 2, "r2"); r.Applied || k.has(snapshot.IDOf(webhook("guard", ""))) == gone {
			t.Errorf("%s: report %+v; the old webhook is there: %v", message, r, !gone)
		}
		k.settle(true)
		r := k.place("3", 2, "r2")
		if !r.Healthy || k.has(snapshot.IDOf(webhook("guard", ""))) || !k.has(snapshot.IDOf(webhook("sentry", ""))) {
			t.Errorf("%s: report %+v", message, r)
		}
	}
}

// TestUnchangedAdmissionObjectsAreNotWaitedFor checks that an update does not wait for objects
// that are already as desired. A server that fails later affects only the health.
func TestUnchangedAdmissionObjectsAreNotWaitedFor(t *testing.T) {
	k := newHookKit(t)
	k.place("1", 1, "r1")
	k.settle(true)
	k.place("1", 1, "r1")
	k.settle(false)
	if r := k.place("1", 1, "r2"); !r.Applied || r.Healthy || !strings.HasPrefix(r.Message, "Deployment.v1.apps app/hook: ") {
		t.Errorf("report %+v", r)
	}
}

// TestAWebhookIsRestored checks that the repair of a webhook waits, too, with an error that
// causes a retry.
func TestAWebhookIsRestored(t *testing.T) {
	k := newHookKit(t)
	u := k.leader(nil)
	k.place("1", 1, "r1")
	k.settle(true)
	k.place("1", 1, "r1")
	guard := snapshot.IDOf(webhook("guard", ""))
	for _, id := range []snapshot.ID{deploymentID, guard} {
		if err := k.member.Delete(id); err != nil {
			t.Fatal(err)
		}
	}
	a := k.want("1", 0, "")
	a.RunUID = ""
	if sent, _, err := u.Restore(t.Context(), a); !sent || err == nil || !strings.Contains(err.Error(), waitsForHook) || k.has(guard) {
		t.Errorf("sent %v, error %v; the webhook is there: %v", sent, err, k.has(guard))
	}
	k.settle(true)
	if sent, _, err := u.Restore(t.Context(), a); !sent || err != nil || !k.has(guard) {
		t.Errorf("sent %v, error %v; the webhook is there: %v", sent, err, k.has(guard))
	}
	if l := k.ledger(); l.open() {
		t.Errorf("the ledger is open: %+v", l)
	}
}

// TestObjectsOfAServedKindWaitForTheServer checks that objects also wait for a server of the same
// revision that serves or converts their kind.
func TestObjectsOfAServedKindWaitForTheServer(t *testing.T) {
	api := bare("apiregistration.k8s.io/v1", "APIService", "", "v1.example.com")
	api.Object["spec"] = map[string]any{"group": "example.com", "version": "v1", "service": map[string]any{"name": "hook", "namespace": "app"}}
	converted := widgetDefinition()
	spec := converted.Object["spec"].(map[string]any)
	spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"clientConfig": map[string]any{"service": map[string]any{"name": "hook", "namespace": "app"}},
	}}
	spec["versions"] = []any{map[string]any{"name": "v1"}, map[string]any{"name": "v2", "storage": true}}
	stored := converted.DeepCopy()
	stored.Object["spec"].(map[string]any)["versions"] = []any{map[string]any{"name": "v1", "storage": true}}
	foreign := api.DeepCopy()
	foreign.Object["spec"].(map[string]any)["service"] = map[string]any{"name": "metrics", "namespace": "app"}
	local := api.DeepCopy()
	unstructured.RemoveNestedField(local.Object, "spec", "service")
	other := api.DeepCopy()
	other.Object["spec"].(map[string]any)["version"] = "v2"
	for name, c := range map[string]struct {
		server *unstructured.Unstructured
		waits  bool
	}{
		"an API service": {api, true}, "a conversion": {converted, true}, "the stored version": {stored, false}, "a server elsewhere": {foreign, false},
		"a local API service": {local, false}, "another version": {other, false}, "a plain definition": {widgetDefinition(), false},
	} {
		k := newKit(t)
		k.member.React(func(obj *unstructured.Unstructured) map[string]any {
			switch obj.GetKind() {
			case "CustomResourceDefinition":
				return isEstablished
			case "APIService":
				return conditions(map[string]any{"type": "Available", "status": "True"})
			}
			return nil
		})
		service := bare("v1", "Service", "app", "hook")
		k.revision("1", namespaceObject("app"), hookDeployment("1"), service, c.server, bare("example.com/v1", "Widget", "app", "small"))
		widget := snapshot.IDOf(bare("example.com/v1", "Widget", "app", "small"))
		if k.place("1", 1, "r1"); k.has(widget) == c.waits {
			t.Errorf("%s: the object is there: %v", name, !c.waits)
		}
		k.settle(true)
		if r := k.place("1", 1, "r1"); !r.Healthy || !k.has(widget) {
			t.Errorf("%s: report %+v", name, r)
		}
	}
}

// TestNothingIsProbedMoreWithoutAServer checks that a revision without admission objects is probed
// once, after all of it was applied. The same holds if its admission objects are already as
// desired.
func TestNothingIsProbedMoreWithoutAServer(t *testing.T) {
	probed := 0
	count := health.ProberFunc(func(context.Context, *unstructured.Unstructured) (health.Status, error) {
		probed++
		return health.Status{Healthy: true}, nil
	})
	k := newHookKit(t)
	k.revision("0", namespaceObject("app"), hookDeployment("1"))
	d := backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) { return k.member.Conn(), nil })
	u := NewApplier(NewConns(d, 0), k.load, count, Options{})
	for _, c := range []struct {
		revision string
		want     int
	}{{"0", 2}, {"0", 2}, {"1", 2 + 3}, {"1", 3}} {
		probed = 0
		if r := k.must(u, k.want(c.revision, 1, "r1")); !r.Healthy || probed != c.want {
			t.Errorf("revision %s: %d probes, want %d; report %+v", c.revision, probed, c.want, r)
		}
	}
}
