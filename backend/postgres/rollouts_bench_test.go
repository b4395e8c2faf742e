package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/storebench"
)

// BenchmarkRollouts drives runs over 200 clusters each at the same time, with an updater that takes no time. Beside it, over the same
// pool in the same run: bare compare-and-swaps of as many bytes, by as many clients.
func BenchmarkRollouts(b *testing.B) {
	for _, runs := range []int{8, 64} {
		b.Run(fmt.Sprint("runs=", runs), func(b *testing.B) {
			var all storebench.Measured
			bare := 0.0
			for b.Loop() {
				b.StopTimer()
				pool, err := pgxpool.New(b.Context(), shared.DSN()+" pool_max_conns=32")
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(pool.Close)
				schema := newSchema(b, shared.DSN())
				s := storebench.Count(open(b, "", postgres.Options{Schema: schema, Pool: pool}))
				m := storebench.NewRuns(b, s, runs, 200).Measure(b, s)
				all.Add(m)
				bare += storebench.Bare(b, runs, m.SaveBytes(), floorSaver(b, pool, schema, runs))
				b.StartTimer()
			}
			all.Report(b, bare/float64(b.N))
		})
	}
}
