package metrics_test

import (
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/metrics"
)

func Example() {
	registry := prometheus.NewRegistry()
	clusters := memory.NewFleet()
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Queues: metrics.Queues(registry)})
	if err != nil {
		log.Fatal(err)
	}
	registry.MustRegister(metrics.New(engine))
	families, err := registry.Gather() // promhttp.HandlerFor serves them
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
	}
	// Output:
	// slipway_leases_overdue 0
	// slipway_runs_unreadable 0
	// slipway_runs_waiting 0
}
