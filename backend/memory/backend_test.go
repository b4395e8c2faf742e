package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
)

func TestStoreKeepsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := backendtest.CheckStore(t.Context(), func() (backend.Store, error) { return memory.NewStore(), nil }); err != nil {
			t.Error(err)
		}
	})
}

func TestConnKeepsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func() (backend.Conn, error) { return memory.NewCluster("one").Conn(), nil }
		if err := backendtest.CheckConn(t.Context(), open); err != nil {
			t.Error(err)
		}
	})
}

func TestFleetKeepsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		east := placement.Cluster{Name: "east", Labels: map[string]string{"env": "prod"}}
		fleet := memory.NewFleet(placement.Cluster{Name: "west", UID: "u"}, east)
		err := errors.Join(
			backendtest.CheckInventory(t.Context(), fleet, east, placement.Cluster{Name: "west", UID: "u"}),
			backendtest.CheckDialer(t.Context(), fleet, east),
			backendtest.CheckConn(t.Context(), func() (backend.Conn, error) { return fleet.Dial(t.Context(), east) }))
		if err != nil {
			t.Error(err)
		}
	})
}
