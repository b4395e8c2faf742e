package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
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

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// eventually waits for done to return nil.
func eventually(t *testing.T, what string, done func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		err := done(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// address returns an unused address.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The hub installs the Fleet API on a cluster, and rolls the selection of a placement out to a
// member.
func TestTheHubServesAClusterAndItsMember(t *testing.T) {
	servers := kubeenv.ForTest(t).Servers(t, "hub", "member1")
	members, listen := t.TempDir(), address(t)
	if err := os.WriteFile(filepath.Join(members, "member1.kubeconfig"), servers[1].Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	hub, member := kubernetes.NewForConfigOrDie(servers[0].Config()), kubernetes.NewForConfigOrDie(servers[1].Config())
	_, err := hub.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"greeting": "hello"}}
	_, also := hub.CoreV1().ConfigMaps("shop").Create(t.Context(), settings, metav1.CreateOptions{})
	if err := errors.Join(err, also); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	if err := install(t.Context(), servers[0].Config()); err != nil {
		t.Fatal(err)
	}
	account, err := servers[0].ConfigForAccount(t.Context(), "slipway-system", "slipway-hub")
	if err != nil {
		t.Fatal(err)
	}
	logged := kubeenv.NewLogged(t)
	var warnings kubeenv.Warnings
	account.Wrap(warnings.Wrap)
	go func() { ended <- serve(ctx, account, members, listen, logged.Logger()) }()

	eventually(t, "the hub is ready", func(ctx context.Context) error { return get(ctx, "http://"+listen+"/readyz") })
	client := dynamic.NewForConfigOrDie(servers[0].Config())
	for _, o := range []struct {
		group, resource, kind, name string
		spec                        map[string]any
	}{
		{"cluster.kubernetes-fleet.io", "memberclusters", "MemberCluster", "member1", map[string]any{}},
		{"placement.kubernetes-fleet.io", "clusterresourceplacements", "ClusterResourcePlacement", "web", map[string]any{
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
	eventually(t, "the member has the ConfigMap", func(ctx context.Context) error {
		cm, err := member.CoreV1().ConfigMaps("shop").Get(ctx, "settings", metav1.GetOptions{})
		if err == nil && cm.Data["greeting"] != "hello" {
			err = errors.New("it has other data")
		}
		return err
	})
	if err := get(t.Context(), "http://"+listen+"/metrics"); err != nil {
		t.Error(err)
	}
	if err := serve(ctx, account, members, listen, slog.New(slog.DiscardHandler)); err == nil || ctx.Err() != nil {
		t.Errorf("a hub whose address is in use ends with %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the hub was stopped, and ends with %v", err)
	}
	if said := warnings.Take(); len(said) > 0 {
		t.Errorf("the API server warns the hub: %q", said)
	}
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, errors.New(resp.Status+": "+string(text)))
	}
	return nil
}
