package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// A manager of controller-runtime runs the hub beside a reconciler of its own, while it leads: a new
// member gets its label from the one, and what is rolled out from the other.
func TestTheManagerRunsTheHub(t *testing.T) {
	env := kubeenv.ForTest(t)
	servers := env.Servers(t, "hub", "member1")
	config, members := servers[0].Config(), t.TempDir()
	if err := os.WriteFile(filepath.Join(members, "member1.kubeconfig"), servers[1].Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := manifests.Install(t.Context(), config, manifests.Options{}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	declare(t, client)
	start(t, servers, members)

	typed, err := kubernetes.NewForConfig(servers[1].Config())
	if err != nil {
		t.Fatal(err)
	}
	deadline, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		cm, err := typed.CoreV1().ConfigMaps("shop").Get(deadline, "settings", metav1.GetOptions{})
		member, merr := client.Resource(memberClusters()).Get(deadline, "member1", metav1.GetOptions{})
		if err == nil && cm.Data["greeting"] == "hello" && merr == nil && member.GetLabels()["environment"] == "staging" {
			return
		}
		select {
		case <-deadline.Done():
			t.Fatalf("the member has %v, %v, and its object is %v, %v", cm, err, member, merr)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// start runs the manager until the test ends.
func start(t *testing.T, servers []*kubeenv.Server, members string) {
	t.Helper()
	hub, err := kubernetes.NewForConfig(servers[0].Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"slipway-system", "shop"} {
		_, err := hub.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"greeting": "hello"}}
	if _, err := hub.CoreV1().ConfigMaps("shop").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mgr, err := newManager(servers[0].Config(), members, manager.Options{
		LeaderElection: true, LeaderElectionID: "slipway-controller", LeaderElectionNamespace: "slipway-system",
		Metrics: server.Options{BindAddress: "0"},
	}, slog.New(slog.DiscardHandler))
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

// declare makes a member without labels, and a placement with a run of one stage.
func declare(t *testing.T, client dynamic.Interface) {
	t.Helper()
	const placement = "placement.kubernetes-fleet.io"
	for _, o := range []struct {
		group, resource, kind, name string
		spec                        map[string]any
	}{
		{"cluster.kubernetes-fleet.io", "memberclusters", "MemberCluster", "member1", map[string]any{}},
		{placement, "clusterresourceplacements", "ClusterResourcePlacement", "web", map[string]any{
			"resourceSelectors": []any{map[string]any{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}},
			"strategy":          map[string]any{"type": "RollingUpdate"},
		}},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.group + "/v1beta1", "kind": o.kind, "spec": o.spec}}
		u.SetName(o.name)
		gvr := schema.GroupVersionResource{Group: o.group, Version: "v1beta1", Resource: o.resource}
		if _, err := client.Resource(gvr).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func memberClusters() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
}
