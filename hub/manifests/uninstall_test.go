package manifests_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// Uninstall deletes the objects that Install has created, and no others; a preview deletes nothing.
// While a placement exists, or the ledger of one, it deletes nothing, and forced it deletes the
// placement, although no hub removes its finalizer. It tells its caller first what it will delete,
// and an error of the caller ends it. A lease that no hub renews does not keep it from deleting.
func TestUninstallDeletesTheObjectsOfInstall(t *testing.T) {
	t.Parallel()
	s, err := clusters.Env(t).StartServer(context.WithoutCancel(t.Context()), "uninstall", kubeenv.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var created []manifests.Change
	if err := manifests.Install(t.Context(), s.Config(), manifests.Options{
		Hub: &manifests.HubOptions{}, Applications: true, Done: func(c manifests.Change) { created = append(created, c) },
	}); err != nil {
		t.Fatal(err)
	}
	client := clientFor(t, s.Config())
	placements := client.Resource(schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: "clusterresourceplacements"})
	web := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "metadata": map[string]any{"name": "web", "finalizers": []any{"example.com/hub"}},
		"spec": map[string]any{"resourceSelectors": []any{map[string]any{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}}},
	}}
	uninstall := func(o manifests.UninstallOptions) (changes []manifests.Change, err error) {
		o.Done = func(c manifests.Change) { changes = append(changes, c) }
		return changes, manifests.Uninstall(t.Context(), s.Config(), o)
	}
	var refused *manifests.InUseError
	create := manifests.UninstallOptions{Found: func(ctx context.Context, _ manifests.Contents) error { // while a person is asked
		_, err := placements.Create(ctx, web, metav1.CreateOptions{})
		return err
	}}
	if changes, err := uninstall(create); !errors.As(err, &refused) || len(changes) > 0 {
		t.Fatalf("a placement comes during the question: %v, %v", changes, err)
	}
	ledger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Data: map[string]string{"ledger": "{}"}}
	ledgers := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("slipway-system")
	if _, err := ledgers.Create(t.Context(), ledger, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const use = "the hub is in use by ClusterResourcePlacement web, Ledger slipway-system/shop: delete the placements while a hub runs"
	if changes, err := uninstall(manifests.UninstallOptions{}); !errors.As(err, &refused) || !strings.Contains(err.Error(), use) || len(changes) > 0 {
		t.Errorf("%v, %v", changes, err)
	}
	listed, err := uninstall(manifests.UninstallOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, listed, manifests.Listed)
	for _, c := range created {
		found := false
		for _, l := range listed {
			found = found || l.Kind == c.Kind && l.Namespace == c.Namespace && l.Name == c.Name
		}
		if !found {
			t.Errorf("the preview lacks %s", c)
		}
	}
	if len(listed) != len(created) {
		t.Errorf("the preview has %d objects, %d were created", len(listed), len(created))
	}
	if _, err := placements.Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Errorf("after the preview: %v", err)
	}
	second := int32(1)
	dead, leases := "dead", kubernetes.NewForConfigOrDie(s.Config()).CoordinationV1().Leases("slipway-system")
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "slipway-hub", Labels: map[string]string{compat.Label: "2025-07"}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &dead, LeaseDurationSeconds: &second},
	}
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	no, notes := errors.New("no"), []string(nil)
	refuse := manifests.UninstallOptions{Force: true, Note: func(s string) { notes = append(notes, s) }, Found: func(_ context.Context, c manifests.Contents) error {
		if want := []manifests.KindCount{{Kind: "ClusterResourcePlacement", Count: 1}}; !slices.Equal(c.Objects, want) || c.Installed != len(created) || !slices.Equal(c.Namespaces, []string{"slipway-system"}) {
			t.Errorf("it has found %+v", c)
		}
		return no
	}}
	if changes, err := uninstall(refuse); !errors.Is(err, no) || len(changes) > 0 || len(notes) != 1 || !strings.Contains(notes[0], "hub dead has the lease") {
		t.Errorf("%v, %v, %q", changes, err, notes)
	}
	renew := manifests.UninstallOptions{Force: true, Found: func(ctx context.Context, _ manifests.Contents) error { // a hub begins while a person is asked
		renewed, err := leases.Get(ctx, lease.Name, metav1.GetOptions{})
		if err == nil {
			now := metav1.NowMicro()
			renewed.Spec.RenewTime = &now
			_, err = leases.Update(ctx, renewed, metav1.UpdateOptions{})
		}
		return err
	}}
	led := (*manifests.LedError)(nil)
	if changes, err := uninstall(renew); !errors.As(err, &led) || led.Hub != dead || len(changes) > 0 {
		t.Errorf("a hub begins during the question: %v, %v", changes, err)
	}
	changes, err := uninstall(manifests.UninstallOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, changes, manifests.Deleted)
	if len(changes) != len(created) {
		t.Errorf("%d objects are deleted, %d were created", len(changes), len(created))
	}
	if _, err := placements.Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the placement: %v", err)
	}
	if err := ledgers.Delete(t.Context(), ledger.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	left, err := uninstall(manifests.UninstallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range left {
		if c.Kind != "Namespace" { // a controller deletes it
			t.Errorf("once more: %s", c)
		}
	}
}
