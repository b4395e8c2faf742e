package store_test

import (
	"os"
	"testing"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// clusters are the API servers that the tests of this package share.
var clusters kubeenv.Shared

func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }
