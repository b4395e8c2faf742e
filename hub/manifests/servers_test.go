package manifests_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

var clusters kubeenv.Shared

func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }

// world is a server that everything was installed on, by the test that needed it first.
type world struct {
	once    sync.Once
	server  *kubeenv.Server
	changes []manifests.Change
	err     error
}

// hub is a server as new as it gets; old is one that has no MutatingAdmissionPolicy yet.
var hub, old world

// installedServer is a server that everything is installed on.
func installedServer(t *testing.T) *kubeenv.Server { return hub.open(t, "hub") }

// olderServer is one that everything is installed on that it knows.
func olderServer(t *testing.T) *kubeenv.Server { return old.open(t, "old", "--emulated-version=1.35") }

func (w *world) open(t *testing.T, name string, args ...string) *kubeenv.Server {
	t.Helper()
	env := clusters.Env(t)
	ctx := context.WithoutCancel(t.Context())
	w.once.Do(func() {
		w.server, w.err = env.StartServer(ctx, name, kubeenv.ServerOptions{Args: args})
		if w.err == nil {
			w.changes, w.err = install(ctx, w.server.Config())
		}
	})
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.server
}

// install installs everything and returns what it did.
func install(ctx context.Context, cfg *rest.Config) ([]manifests.Change, error) {
	var changes []manifests.Change
	err := manifests.Install(ctx, cfg, manifests.Options{
		Hub:  &manifests.HubOptions{User: hubUser},
		Done: func(c manifests.Change) { changes = append(changes, c) },
	})
	return changes, err
}

// hubUser is who the hub is in these tests.
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
