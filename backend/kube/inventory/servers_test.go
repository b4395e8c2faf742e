package inventory_test

import (
	"os"
	"testing"

	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// clusters are the API servers that the tests of this package share.
var clusters kubeenv.Shared

func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }

func theHub(t testing.TB) kubetest.Hub {
	t.Helper()
	return kubetest.HubAt(t, clusters.Server(t, "one"))
}
