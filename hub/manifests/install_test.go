package manifests_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

func TestInstallingAgainChangesNothing(t *testing.T) {
	s := installedServer(t)
	wantOutcomes(t, hub.changes, manifests.Created)
	again, err := install(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, again, manifests.Unchanged)
	if len(again) != len(hub.changes) {
		t.Errorf("%d objects, at first %d", len(again), len(hub.changes))
	}
}

func wantOutcomes(t *testing.T, changes []manifests.Change, want manifests.Outcome) {
	t.Helper()
	for _, c := range changes {
		if c.Outcome != want {
			t.Errorf("%s, want %s", c, want)
		}
	}
}

// An earlier installation, made by hand, is upgraded.
func TestUpgradeChangesOnlyDifferences(t *testing.T) {
	s := olderServer(t)
	crds := clientFor(t, s.Config()).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "memberclusters.cluster.kubernetes-fleet.io"
	patch := `[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/observedIdentity"},
		{"op": "add", "path": "/metadata/labels/theirs", "value": "kept"}]`
	if _, err := crds.Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "other"}); err != nil {
		t.Fatal(err)
	}
	changes, err := install(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if updated := c.Outcome == manifests.Updated; updated != (c.Name == name) {
			t.Error(c)
		}
	}
	got, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetLabels()["theirs"] != "kept" {
		t.Errorf("labels %v, want that of others kept", got.GetLabels())
	}
}

func TestAnOlderServerIsInstalledWithoutMutatingPolicies(t *testing.T) {
	olderServer(t)
	skipped := 0
	for _, c := range old.changes {
		if mutating := strings.HasPrefix(c.Kind, "MutatingAdmission"); mutating != (c.Outcome == manifests.Skipped) {
			t.Error(c)
		} else if mutating {
			skipped++
		}
	}
	if skipped != 4 {
		t.Errorf("%d objects are skipped, want two policies and their bindings", skipped)
	}
}

// A server without the mutating policies records no identity by itself.
func TestIdentitiesOnAnOlderServer(t *testing.T) {
	s := olderServer(t)
	people(t, s)
	k := requestKinds(t, s)[3] // the namespaced kind, in v1beta1
	groups := []any{"team-alice", "system:authenticated"}
	alice := map[string]any{"username": "alice", "groups": groups}
	root := map[string]any{"username": "root", "groups": groups}
	approve := map[string]any{"verdict": "Approve", "by": root}
	for _, c := range []struct {
		name, field string
		claim       any
		refusal     string
	}{
		{"herself", "approvedBy", alice, ""},
		{"without her groups", "approvedBy", map[string]any{"username": "alice"}, "status.approvedBy must be the authenticated user"},
		{"another name", "approvedBy", root, "status.approvedBy must be the authenticated user"},
		{"another uid", "approvedBy", map[string]any{"username": "alice", "groups": groups, "uid": "0"}, "status.approvedBy must be the authenticated user"},
		{"a rejection", "rejectedBy", alice, "status.rejectedBy must be the authenticated user"},
		{"another decision", "decisions", []any{approve}, "status.decisions is written by admission"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &exchange{t: t, s: s, k: k, name: k.create(t, clientFor(t, s.Config())).GetName()}
			status := conditions(approvedByAlice)
			e.patch("mallory", status, "needs the RBAC verb approve")
			status[c.field] = c.claim
			e.patch("alice", status, c.refusal)
			if c.refusal == "" {
				e.want("alice", "", "")
				e.patch("bob", map[string]any{"approvedBy": root}, "status.approvedBy must be the authenticated user")
			} else if e.status() != nil {
				t.Errorf("status %v, want none", e.status())
			}
		})
	}
}

// A server without the mutating policies records no creator by itself.
func TestARunOfAnOlderServerHasNoOtherCreator(t *testing.T) {
	s := olderServer(t)
	k := requestKind{kind: "StagedUpdateRun", gvr: placementResource("v1beta1", "stagedupdateruns"), namespace: s.Namespace(t)}
	u := k.request()
	u.Object["spec"] = map[string]any{"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run"}
	for by, refused := range map[string]bool{"root": true, "admin": false, "": false} {
		u.SetAnnotations(nil)
		if by != "" {
			u.SetAnnotations(map[string]string{manifests.CreatedBy: by})
		}
		_, err := k.client(clientFor(t, s.Config())).Create(t.Context(), u, metav1.CreateOptions{})
		if (err != nil) != refused {
			t.Errorf("created by %q: %v, want refused %t", by, err, refused)
		}
	}
	made := k.client(clientFor(t, s.Config()))
	u.SetAnnotations(nil)
	u, err := made.Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for by, refused := range map[string]bool{"root": true, "": false} {
		if u.SetAnnotations(nil); by != "" {
			u.SetAnnotations(map[string]string{manifests.RollbackBy: by})
		}
		u.Object["spec"].(map[string]any)["state"] = "Rollback"
		_, err := made.Update(t.Context(), u, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if (err != nil) != refused {
			t.Errorf("taken back by %q: %v, want refused %t", by, err, refused)
		}
	}
}

func TestInstallReportsMissingRights(t *testing.T) {
	s := installedServer(t)
	err := manifests.Install(t.Context(), s.ConfigFor("nobody"), manifests.Options{})
	want := `manifests: install: CustomResourceDefinition clusterstagedupdateruns.placement.kubernetes-fleet.io: `
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), `User "nobody" cannot get`) {
		t.Errorf("%v, want %s... User \"nobody\" cannot get", err, want)
	}
}

// One kind is served a little later than the others.
func TestInstallWaitsUntilEveryKindIsServed(t *testing.T) {
	s := installedServer(t)
	var faults kubeenv.Faults
	struck := faults.Add(kubeenv.Rule{
		Verb: "list", Path: "/v1beta1/resourceoverrides", Times: 3, Fault: kubeenv.Answer(http.StatusNotFound, metav1.StatusReasonNotFound),
	})
	cfg := s.Config()
	cfg.Wrap(faults.Wrap)
	if _, err := install(t.Context(), cfg); err != nil {
		t.Error(err)
	}
	if struck() != 3 {
		t.Errorf("it was told %d times that a kind is not served, want 3", struck())
	}
}

// Another definition already uses the names of one of the definitions.
func TestInstallSaysThatANameIsTaken(t *testing.T) {
	s := olderServer(t)
	const ours, theirs = "resourceoverrides.placement.kubernetes-fleet.io", "others.placement.kubernetes-fleet.io"
	kubectl(t, s, "", "delete", "crd", ours)
	crd, err := os.ReadFile("crds/resourceoverrides.yaml")
	if err != nil {
		t.Fatal(err)
	}
	other := strings.NewReplacer("name: "+ours, "name: "+theirs, "plural: resourceoverrides", "plural: others").Replace(string(crd))
	kubectl(t, s, other, "create", "-f", "-")
	err = manifests.Install(t.Context(), s.Config(), manifests.Options{Timeout: 20 * time.Second})
	if err == nil || !strings.Contains(err.Error(), ours+": a name is taken by another definition") {
		t.Errorf("%v, want that a name is taken", err)
	}
	kubectl(t, s, "", "delete", "crd", theirs)
	if _, err := install(t.Context(), s.Config()); err != nil {
		t.Error(err)
	}
}

func TestInstallEndsWithItsContext(t *testing.T) {
	s := installedServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := manifests.Install(ctx, s.Config(), manifests.Options{}); err == nil {
		t.Error("no error, want that of the context")
	}
}

// Objects are written in one version and read in the other.
func TestVersionsShareObjects(t *testing.T) {
	s := kubeFleetServer(t)
	c := clientFor(t, s.Config())
	for _, write := range []string{"v1", "v1beta1"} {
		read := map[string]string{"v1": "v1beta1", "v1beta1": "v1"}[write]
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"placementName": "p", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "1",
		}}}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "placement.kubernetes-fleet.io", Version: write, Kind: "ClusterStagedUpdateRun"})
		u.SetGenerateName("both-")
		created, err := c.Resource(placementResource(write, "clusterstagedupdateruns")).Create(t.Context(), u, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Resource(placementResource(read, "clusterstagedupdateruns")).Get(t.Context(), created.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantFields(t, "spec", created.Object["spec"], got.Object["spec"])
		if got.GetGeneration() != 1 || got.GetUID() != created.GetUID() {
			t.Errorf("generation %d, uid %s, want 1 and %s", got.GetGeneration(), got.GetUID(), created.GetUID())
		}
	}
}
