package calendar_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// BenchmarkWindow asks for all clusters, at times that are a minute apart.
func BenchmarkWindow(b *testing.B) {
	const n = 1000
	groups, rules := map[string]string{}, calendar.Rules{Clusters: map[string]calendar.Level{}}
	same := rules
	same.Clusters = map[string]calendar.Level{}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		groups[name] = ""
		zone := zones()[i%4]
		rules.Clusters[name] = level(zone, window(fmt.Sprintf("FREQ=DAILY;BYHOUR=%d;BYMINUTE=%d", i/60, i%60), time.Hour))
		same.Clusters[name] = level(zone, window("FREQ=DAILY;BYHOUR=2", time.Hour))
	}
	plan := planOf(b, groups)
	for name, r := range map[string]calendar.Rules{"same": same, "each its own": rules} {
		b.Run(name, func(b *testing.B) {
			c, err := r.For(plan)
			if err != nil {
				b.Fatal(err)
			}
			at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				askAll(c, n, at)
				at = at.Add(time.Minute)
			}
		})
		b.Run("For "+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := r.For(plan); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func askAll(c stages.Calendar, n int, at time.Time) {
	for pos := range n {
		c.Window(pos, at)
	}
}
