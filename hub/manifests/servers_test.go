package manifests_test

import (
	"context"
	"os"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

var clusters kubeenv.Shared

func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }

// world is a server with everything installed by the first test that needs it.
type world struct {
	once    sync.Once
	server  *kubeenv.Server
	changes []manifests.Change
	err     error
	// setting is the compatibility setting of the definitions.
	setting compat.Setting
}

// hub is a server of the newest version. Old is a server without MutatingAdmissionPolicy.
// Aggregating is a server that aggregates ClusterRoles, and tests may install anything on it.
var hub, old, aggregating world

// kubeFleet018 is a server with the definitions of KubeFleet 0.18, which serves all kinds in both
// versions.
var kubeFleet018 = world{setting: compat.KubeFleet018}

// installedServer returns a server with everything installed.
func installedServer(t *testing.T) *kubeenv.Server { return hub.open(t, "hub") }

// kubeFleetServer returns a server with the definitions of KubeFleet 0.18.
func kubeFleetServer(t *testing.T) *kubeenv.Server { return kubeFleet018.open(t, "kubefleet018") }

// olderServer returns a server of an older version, with everything installed that it supports.
func olderServer(t *testing.T) *kubeenv.Server { return old.open(t, "old", "--emulated-version=1.35") }

// aggregatingServer returns a server with the controller of aggregated roles, and the namespace
// web.
func aggregatingServer(t *testing.T) *kubeenv.Server {
	s := aggregating.open(t, "aggregating")
	aggregates.Do(func() {
		if err := s.StartControllerManager(context.WithoutCancel(t.Context()), "clusterrole-aggregation-controller"); err != nil {
			t.Fatal(err)
		}
		web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
		if _, err := clientFor(t, s.Config()).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	return s
}

var aggregates sync.Once

func (w *world) open(t *testing.T, name string, args ...string) *kubeenv.Server {
	t.Helper()
	env := clusters.Env(t)
	ctx := context.WithoutCancel(t.Context())
	w.once.Do(func() {
		w.server, w.err = env.StartServer(ctx, name, kubeenv.ServerOptions{Args: args})
		if w.err == nil {
			w.changes, w.err = installFor(ctx, w.server.Config(), w.setting)
		}
	})
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.server
}

// install installs everything and returns the changes.
func install(ctx context.Context, cfg *rest.Config) ([]manifests.Change, error) {
	return installFor(ctx, cfg, "")
}

func installFor(ctx context.Context, cfg *rest.Config, setting compat.Setting) ([]manifests.Change, error) {
	var changes []manifests.Change
	err := manifests.Install(ctx, cfg, manifests.Options{
		Compatibility: setting,
		Hub:           &manifests.HubOptions{User: hubUser},
		Done:          func(c manifests.Change) { changes = append(changes, c) },
	})
	return changes, err
}

// hubUser is the user name of the hub in these tests.
const hubUser = "the-hub"

func clientFor(t *testing.T, cfg *rest.Config) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func placementResource(version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: version, Resource: resource}
}

// A server before 1.36 has all validating policies and none of the mutating ones.
func TestPoliciesOnAnOlderServer(t *testing.T) {
	got, err := manifests.Inspect(t.Context(), kubernetes.NewForConfigOrDie(olderServer(t).Config()))
	if err != nil || got.Validating != manifests.Complete || got.Mutating != manifests.None || got.Identity() || got.Version == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A hub without the right to read the policies must not conclude that they were never installed.
func TestPoliciesThatMayNotBeReadAreNotTakenForMissing(t *testing.T) {
	got, err := manifests.Inspect(t.Context(), kubernetes.NewForConfigOrDie(configOf(installedServer(t), "mallory")))
	if err != nil || got.Validating != manifests.Partial || got.Mutating != manifests.Partial || got.Identity() {
		t.Errorf("%+v, %v", got, err)
	}
	hub, err := manifests.Inspect(t.Context(), kubernetes.NewForConfigOrDie(installedServer(t).ConfigFor(hubUser)))
	if err != nil || !hub.Identity() || len(hub.Problems) > 0 {
		t.Errorf("the hub reads %+v, %v", hub, err)
	}
}
