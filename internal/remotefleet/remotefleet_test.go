package remotefleet_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/internal/remotefleet"
	"github.com/slipway-dev/slipway/placement"
)

// TestConnections: a connection to another process keeps the contract as one in memory does.
func TestConnections(t *testing.T) {
	fleet := memory.NewFleet()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- remotefleet.Serve(l, fleet, nil) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	var clusters []placement.Cluster
	backendtest.TestConn(t, func(t *testing.T) backend.Conn {
		fleet.Add(placement.Cluster{Name: fmt.Sprint("member", len(clusters))})
		clusters = clusters[:0]
		for c, err := range fleet.Clusters(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			clusters = append(clusters, c)
		}
		c := clusters[len(clusters)-1]
		conn, err := remotefleet.Dial(l.Addr().String()).Dial(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	})
	backendtest.TestInventory(t, remotefleet.Dial(l.Addr().String()), clusters...)
}
