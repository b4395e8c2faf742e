package store_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// clusters are the API servers that the tests of this package share.
var clusters kubeenv.Shared

func TestMain(m *testing.M) {
	if os.Getenv(engineName) != "" {
		fmt.Fprintln(os.Stderr, runEngine())
		os.Exit(1)
	}
	os.Exit(clusters.Run(m))
}
