package simulate_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// BenchmarkSimulate measures a run in three stages, 5% of each at a time; every fiftieth cluster
// fails once, and each cluster has another duration.
func BenchmarkSimulate(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) { benchSimulate(b, n) })
	}
}

func benchSimulate(b *testing.B, n int) {
	clusters := fleet(n/3, n/3, n-2*(n/3))
	w := simulate.Environment{Default: simulate.Member{Take: minute}, Members: map[string]simulate.Member{}}
	for i := range clusters {
		m := simulate.Member{Take: minute + time.Duration(i*7919%60000)*time.Millisecond}
		if i%50 == 7 {
			m.Fail = 1
		}
		w.Members[clusters[i].Name] = m
	}
	p := plan(b, strategy(3, func(s *stages.Strategy) {
		s.Profile = stages.Workflow
		for i := range s.Stages {
			limit := intstr.FromString("5%")
			s.Stages[i].MaxConcurrency = &limit
		}
	}), clusters)
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		events = 0
		end, err := simulate.Run(p, w, func(simulate.Event) error {
			events++
			return nil
		})
		if err != nil || end.State != stages.Completed {
			b.Fatalf("%s: %v", end.State, err)
		}
	}
	b.ReportMetric(float64(events), "events")
}
