package migrate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/hub/migrate"
)

// TestAFleetOfKubeFleetAndBack plays the whole migration on API servers: it plans a fleet of
// KubeFleet, takes it over with a command that is killed at every write, serves it with a hub, and
// gives it back with a command that is killed at every write. The garbage collector always runs,
// and no workload changes.
func TestAFleetOfKubeFleetAndBack(t *testing.T) {
	e := newFleetEnv(t)
	e.fill()
	take := func(m *migrate.Migration) error { return m.TakeOver(t.Context()) }
	give := func(m *migrate.Migration) error { return m.GiveBack(t.Context()) }

	e.refused(take, "hub: Deployment fleet-system/hub-agent: 0 replicas of 1")
	e.patch(e.onHub, deployments, "fleet-system", "hub-agent", `{"spec":{"replicas":0}}`)
	text, err := os.ReadFile("testdata/webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	webhook := e.parse(string(text))[0]
	e.create(e.onHub, resourceOf(webhook), webhook)
	e.leads("agent", time.Now())
	e.refused(take, "m1: Lease kube-system/136224848560.hub.fleet.azure.com: renewed")
	e.leads("agent", time.Now().Add(-time.Hour))

	e.planned()
	e.differs(take)
	e.killedAtEachWrite(take)
	e.takenOver()
	e.completed(take)

	if err := manifests.Install(t.Context(), e.hub.Config(), manifests.Options{Hub: &manifests.HubOptions{Secrets: true}}); err != nil {
		t.Fatal(err)
	}
	e.served = true
	e.placed = e.identities()
	stop := e.serve()
	e.applied()
	e.untouched("when the hub has taken over")
	e.changesReachTheMember()
	e.backup += ".back"
	e.refused(give, "hub: Lease slipway-system/slipway-hub")
	stop()
	e.placed = e.identities()
	e.killedAtEachWrite(give)
	e.givenBack()
	e.completed(give)
	time.Sleep(3 * time.Second) // time for the garbage collector to delete objects
	e.untouched("at the end")
}

// leads changes the holder and the renewal time of the member agent's Lease.
func (e *fleetEnv) leads(holder string, at time.Time) {
	e.t.Helper()
	lease := e.parse(fmt.Sprintf(`
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: 136224848560.hub.fleet.azure.com, namespace: kube-system}
spec: {holderIdentity: %s, leaseDurationSeconds: 15, renewTime: %q}
`, holder, at.UTC().Format("2006-01-02T15:04:05.000000Z")))[0]
	_, err := e.onMember.Resource(leases).Namespace("kube-system").Apply(e.t.Context(), lease.GetName(), lease, metav1.ApplyOptions{FieldManager: "agent", Force: true})
	if err != nil {
		e.t.Fatal(err)
	}
}

// planned checks the current plan of the fleet, as text and as JSON.
func (e *fleetEnv) planned() {
	e.t.Helper()
	m, _ := e.migration(0)
	plan, err := m.Plan(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/plan.txt")
	if err != nil {
		e.t.Fatal(err)
	}
	shown := plan.String()
	for _, a := range plan.Agents { // the time differs in each run
		shown = strings.ReplaceAll(shown, "Agent on "+a.String()+"\n", fmt.Sprintf("Agent on %s: %s %s/%s\n", a.Cluster, a.Kind, a.Namespace, a.Name))
	}
	if d := cmp.Diff(string(golden), shown+"\n"); d != "" {
		e.t.Errorf("the plan: %s\n%s", d, shown)
	}
	if _, err := json.Marshal(plan); err != nil {
		e.t.Error(err)
	}
}

// differs checks that a take-over is refused if the hub's rolling update would change all clusters
// at once.
func (e *fleetEnv) differs(take func(*migrate.Migration) error) {
	e.t.Helper()
	e.patch(e.onHub, configMaps, "shop", "settings", `{"data":{"greeting":"good morning"}}`)
	e.refused(take, "ClusterResourcePlacement shop on m1: Update ConfigMap shop/settings /data/greeting")
	e.patch(e.onHub, configMaps, "shop", "settings", `{"data":{"greeting":"hello"}}`)
}

// takenOver checks the result of a take-over.
func (e *fleetEnv) takenOver() {
	e.t.Helper()
	for _, resource := range []string{"works", "clusterresourcebindings", "clusterresourcesnapshots", "clusterschedulingpolicysnapshots"} {
		if n := e.count(e.onHub, placementGVR(resource)); n > 0 {
			e.t.Errorf("%d %s are left", n, resource)
		}
	}
	if n := e.count(e.onMember, appliedWorks); n > 0 {
		e.t.Errorf("%d AppliedWorks are left", n)
	}
	for _, obj := range []*unstructured.Unstructured{
		e.get(e.onMember, configMaps, "shop", "settings"), e.get(e.onMember, deployments, "shop", "web"), e.get(e.onMember, namespaces, "", "shop"),
	} {
		if len(obj.GetOwnerReferences()) > 0 || obj.GetAnnotations()["kubernetes-fleet.io/last-applied-configuration"] == "" {
			e.t.Errorf("%s: owners %v, annotations %v", obj.GetKind(), obj.GetOwnerReferences(), obj.GetAnnotations())
		}
	}
	p := e.get(e.onHub, placements, "", "shop")
	if d := cmp.Diff([]string{"example.com/mine"}, p.GetFinalizers()); d != "" {
		e.t.Errorf("finalizers: %s", d)
	}
	if _, has, _ := unstructured.NestedSlice(e.get(e.onHub, members, "", "m1").Object, "status", "agentStatus"); has {
		e.t.Error("the member has the heartbeat of an agent")
	}
	text, err := os.ReadFile(e.backup)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, want := range []string{"shop-work", "shop-3-snapshot", "shop-m1-0a1b2c3d", "fleet-validating-webhook-configuration", "AppliedWork", "InternalMemberCluster"} {
		if !strings.Contains(string(text), want) {
			e.t.Errorf("the backup does not have %s", want)
		}
	}
}

// applied waits until the placement is applied and available, and checks that the run that
// KubeFleet ended is unchanged.
func (e *fleetEnv) applied() {
	e.t.Helper()
	e.eventually("the placement to be available", func() error {
		web := e.get(e.onMember, deployments, "shop", "web") // instead of the controller of Deployments
		e.patch(e.onMember, deployments, "shop", "web", fmt.Sprintf(`{"status":{"observedGeneration":%d}}`, web.GetGeneration()), "status")
		p := e.get(e.onHub, placements, "", "shop")
		got := map[string]string{}
		conditions, _, _ := unstructured.NestedSlice(p.Object, "status", "conditions")
		for _, c := range conditions {
			c := c.(map[string]any)
			got[fmt.Sprint(c["type"])] = fmt.Sprint(c["status"])
		}
		if got["ClusterResourcePlacementApplied"] != "True" || got["ClusterResourcePlacementAvailable"] != "True" {
			status, _ := json.Marshal(p.Object["status"])
			return fmt.Errorf("%s", status)
		}
		return nil
	})
	run := e.get(e.onHub, runs, "", "old")
	conditions, _, _ := unstructured.NestedSlice(run.Object, "status", "conditions")
	if len(conditions) != 3 || !strings.HasSuffix(run.GetAnnotations()["slipway.dev/run-uid"], "/kubefleet") {
		e.t.Errorf("the run that has ended: %v, %v", conditions, run.GetAnnotations())
	}
}

// changesReachTheMember checks that the hub owns the fields that KubeFleet's agent owned: a field
// that is dropped on the hub disappears.
func (e *fleetEnv) changesReachTheMember() {
	e.t.Helper()
	e.patch(e.onHub, configMaps, "shop", "settings", `{"data":{"greeting":null,"farewell":"bye"}}`)
	e.eventually("the change to reach the member", func() error {
		data, _, _ := unstructured.NestedStringMap(e.get(e.onMember, configMaps, "shop", "settings").Object, "data")
		if d := cmp.Diff(map[string]string{"farewell": "bye"}, data); d != "" {
			return fmt.Errorf("%s", d)
		}
		return nil
	})
	e.applied()
}

// givenBack checks the result of a give-back.
func (e *fleetEnv) givenBack() {
	e.t.Helper()
	for _, resource := range []string{"clusterresourcebindings", "clusterresourcesnapshots", "clusterschedulingpolicysnapshots"} {
		if n := e.count(e.onHub, placementGVR(resource)); n > 0 {
			e.t.Errorf("%d %s are left", n, resource)
		}
	}
	for _, obj := range []*unstructured.Unstructured{
		e.get(e.onMember, configMaps, "shop", "settings"), e.get(e.onMember, deployments, "shop", "web"), e.get(e.onMember, namespaces, "", "shop"),
		e.get(e.onHub, placements, "", "shop"), e.get(e.onHub, runs, "", "old"),
	} {
		for _, f := range obj.GetManagedFields() {
			if strings.HasPrefix(f.Manager, "slipway/") {
				e.t.Errorf("%s: %s manages fields", obj.GetKind(), f.Manager)
			}
		}
		for _, key := range []string{"digest.slipway.dev/shop", "epoch.slipway.dev/shop", "slipway.dev/run-uid"} {
			if _, has := obj.GetAnnotations()[key]; has {
				e.t.Errorf("%s has the annotation %s", obj.GetKind(), key)
			}
		}
		for _, f := range obj.GetFinalizers() {
			if strings.HasPrefix(f, "kubernetes-fleet.io/") {
				e.t.Errorf("%s has the finalizer %s", obj.GetKind(), f)
			}
		}
	}
	records, err := e.onHub.Resource(secrets).Namespace("slipway-system").List(e.t.Context(), metav1.ListOptions{FieldSelector: "type=slipway.dev/record"})
	if err != nil || len(records.Items) > 0 {
		e.t.Errorf("%d records, %v", len(records.Items), err)
	}
	ledgers, err := e.onMember.Resource(configMaps).Namespace("slipway-system").List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	for _, l := range ledgers.Items {
		if l.GetName() != "kube-root-ca.crt" {
			e.t.Errorf("the member has the ledger %s", l.GetName())
		}
	}
}
