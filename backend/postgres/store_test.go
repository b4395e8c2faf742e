package postgres_test

import (
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/postgres"
)

func TestStore(t *testing.T) {
	backendtest.TestStore(t, func(t *testing.T) backend.Store { return fresh(t, postgres.Options{}) })
}
