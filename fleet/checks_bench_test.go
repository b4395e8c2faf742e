package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/internal/storebench"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// counted is a provider that has a number for each of 1,000 clusters, and counts its requests.
type counted struct {
	samples         []backend.Sample
	asked, now, max atomic.Int64
}

func (c *counted) Measure(_ context.Context, q backend.MetricQuery) ([]backend.Sample, error) {
	c.asked.Add(1)
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.max.Load(); now > most && !c.max.CompareAndSwap(most, now); most = c.max.Load() {
	}
	time.Sleep(5 * time.Millisecond)
	if strings.Contains(q.Text, "by (cluster)") {
		return c.samples, nil
	}
	return []backend.Sample{{Value: 0}}, nil
}

// BenchmarkChecks has 1,000 clusters in flight, all healthy. A check measures each of them every
// second, with one query that returns a number for each cluster, or with one query for each. An
// operation is a round of measurements, which a check with an interval of 10 s makes every 10 s:
// core-%-at-10s is its cost as a share of one core, measured over the process, requests/op the
// number of its requests, and at-a-time the number of concurrent requests.
func BenchmarkChecks(b *testing.B) {
	for name, c := range map[string]check.Check{
		"by=cluster": {Query: "max by (cluster) (errors)", ClusterLabel: "cluster"},
		"by=one":     {Query: `errors{cluster="{{cluster}}"}`},
	} {
		b.Run(name, func(b *testing.B) {
			most := 1.0
			c.Name, c.Max, c.Interval.Duration, c.Count = "errors", &most, time.Second, 1000000
			benchmarkChecks(b, c)
		})
	}
}

func benchmarkChecks(b *testing.B, c check.Check) {
	const clusters = 1000
	inventory, provider := memory.NewFleet(), &counted{}
	for i := range clusters {
		name := fmt.Sprintf("c%04d", i)
		inventory.Add(placement.Cluster{Name: name})
		provider.samples = append(provider.samples, backend.Sample{Labels: map[string]string{"cluster": name}})
	}
	e, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: inventory, Dialer: inventory, Updater: storebench.Instant{}, Name: "one",
		Source:  memory.NewSource(namespace("test-namespace"), configMap("test-cm", "v")),
		Metrics: map[string]backend.MetricProvider{"prom": provider},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.PutPlacement(b.Context(), fleet.Placement{Name: ep, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}}}); err != nil {
		b.Fatal(err)
	}
	all := intstr.FromString("100%")
	_, err = e.CreateRun(b.Context(), fleet.RunSpec{Name: "r", Placement: ep, Strategy: stages.Strategy{Stages: []stages.Stage{{
		Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &all, ClusterChecks: []check.Check{c},
	}}}})
	if err != nil {
		b.Fatal(err)
	}
	defer running(b, e)()
	rounds := func() (n int) {
		s, err := e.Run("r").Status(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		n = 1 << 30
		for i := range s.Run.Form(runstate.Key{}).InFlight {
			if f := &s.Run.Form(runstate.Key{}).InFlight[i]; f.Checks != nil {
				n = min(n, f.Checks.Checks[0].Number)
			} else {
				return 0
			}
		}
		if len(s.Run.Form(runstate.Key{}).InFlight) < clusters {
			return 0
		}
		return n
	}
	for rounds() < 2 {
		time.Sleep(100 * time.Millisecond)
	}
	b.ResetTimer()
	began, asked, cpu := rounds(), provider.asked.Load(), cpuSeconds()
	time.Sleep(time.Duration(b.N) * time.Second) // no status calls disturb the engine in this time
	used := cpuSeconds() - cpu
	n := float64(rounds() - began)
	b.ReportMetric(used/n/10*100, "core-%-at-10s")
	b.ReportMetric(float64(provider.asked.Load()-asked)/n, "requests/op")
	b.ReportMetric(float64(provider.max.Load()), "at-a-time")
}
