package memory_test

import (
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
)

func TestStoreKeepsTheContract(t *testing.T) {
	backendtest.TestStore(t, func(*testing.T) backend.Store { return memory.NewStore() })
}

func TestConnKeepsTheContract(t *testing.T) {
	backendtest.TestConn(t, func(*testing.T) backend.Conn { return memory.NewCluster("one").Conn() })
}

func TestFleetKeepsTheContract(t *testing.T) {
	east := placement.Cluster{Name: "east", Labels: map[string]string{"env": "prod"}}
	fleet := memory.NewFleet(placement.Cluster{Name: "west", UID: "u"}, east)
	backendtest.TestInventory(t, fleet, east, placement.Cluster{Name: "west", UID: "u"})
	backendtest.TestDialer(t, fleet, east)
}
