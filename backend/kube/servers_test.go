package kube_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// clusters are the API servers that the tests of this package share.
var clusters kubeenv.Shared

func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }

// eventually asks until ok, and fails the test if that takes too long.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not happen", what)
		case <-tick.C:
		}
	}
}
