package store_test

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/kube/store"
)

// storeOn returns a store of its own on a server: other stores there have other
// namespaces.
func storeOn(t testing.TB, cfg *rest.Config, namespace string) *store.Store {
	t.Helper()
	s, err := store.New(cfg, store.Options{Namespace: namespace})
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
