package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1beta1 "github.com/slipway-dev/slipway/api/cluster/v1beta1"
	placementv1beta1 "github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// A manager of controller-runtime runs the hub and its own reconciler while it leads: a new
// member gets its label from the reconciler, and its objects from the hub.
func TestTheManagerRunsTheHub(t *testing.T) {
	env := kubeenv.ForTest(t)
	servers := env.Servers(t, "hub", "member1")
	config, members := servers[0].Config(), t.TempDir()
	if err := os.WriteFile(filepath.Join(members, "member1.kubeconfig"), servers[1].Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := manifests.Install(t.Context(), config, manifests.Options{Hub: &manifests.HubOptions{}}); err != nil {
		t.Fatal(err)
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	declare(t, c)
	start(t, servers, members)

	typed, err := kubernetes.NewForConfig(servers[1].Config())
	if err != nil {
		t.Fatal(err)
	}
	deadline, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		cm, err := typed.CoreV1().ConfigMaps("shop").Get(deadline, "settings", metav1.GetOptions{})
		var member clusterv1beta1.MemberCluster
		var placed placementv1beta1.ClusterResourcePlacement
		errs := errors.Join(c.Get(deadline, client.ObjectKey{Name: "member1"}, &member), c.Get(deadline, client.ObjectKey{Name: "web"}, &placed))
		if err == nil && cm.Data["greeting"] == "hello" && errs == nil && member.Labels["environment"] == "staging" && isPlaced(&placed) {
			return
		}
		select {
		case <-deadline.Done():
			t.Fatalf("the member has %v, %v, and the objects are %v, %v, %v", cm, err, member, placed.Status, errs)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// start runs the manager with the account that the installation makes, until the test ends. The
// test fails if the manager logs a warning, or an API server warns it.
func start(t *testing.T, servers []*kubeenv.Server, members string) {
	t.Helper()
	hub, err := kubernetes.NewForConfig(servers[0].Config())
	if err != nil {
		t.Fatal(err)
	}
	_, err = hub.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"greeting": "hello"}}
	if _, err := hub.CoreV1().ConfigMaps("shop").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account, err := servers[0].ConfigForAccount(t.Context(), "slipway-system", "slipway-hub")
	if err != nil {
		t.Fatal(err)
	}
	logged := kubeenv.NewLogged(t)
	var warnings kubeenv.Warnings
	account.Wrap(warnings.Wrap)
	t.Cleanup(func() {
		for _, said := range warnings.Take() {
			t.Errorf("the API server warns the manager: %s", said)
		}
	})
	mgr, err := newManager(account, members, manager.Options{
		LeaderElection: true, LeaderElectionID: "slipway-controller", LeaderElectionNamespace: "slipway-system",
		Metrics: server.Options{BindAddress: "0"},
	}, logged.Logger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// declare makes a member without labels, and a placement of a namespace.
func declare(t *testing.T, c client.Client) {
	t.Helper()
	for _, obj := range []client.Object{
		&clusterv1beta1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}},
		&placementv1beta1.ClusterResourcePlacement{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: placementv1beta1.PlacementSpec{
				ResourceSelectors: []placementv1beta1.ResourceSelectorTerm{{Version: "v1", Kind: "Namespace", Name: "shop"}},
				Strategy:          placementv1beta1.RolloutStrategy{Type: placementv1beta1.RollingUpdateRolloutStrategyType},
			},
		},
	} {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// isPlaced reports whether the placement says that its objects are available on the member.
func isPlaced(p *placementv1beta1.ClusterResourcePlacement) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, "ClusterResourcePlacementAvailable") &&
		len(p.Status.PerClusterPlacementStatuses) == 1 && p.Status.PerClusterPlacementStatuses[0].ClusterName == "member1"
}
