package kube_test

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/kube"
)

// storeOn returns a store of its own on a server: other stores there have other
// namespaces.
func storeOn(t testing.TB, cfg *rest.Config, namespace string) *kube.Store {
	t.Helper()
	s, err := kube.NewStore(cfg, kube.StoreOptions{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := clusters.Server(t, "one")
	backendtest.TestStore(t, func(t *testing.T) backend.Store {
		return storeOn(t, server.Config(), server.Namespace(t))
	})
}
