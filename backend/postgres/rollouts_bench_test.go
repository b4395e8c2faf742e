package postgres_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/storebench"
)

// BenchmarkRollouts drives runs at the same time, of 12,800 clusters together, with an updater
// that takes no time. Beside it, over the same pool in the same run: bare compare-and-swaps of as
// many bytes, by as many clients.
func BenchmarkRollouts(b *testing.B) {
	for _, runs := range []int{8, 64} {
		b.Run(fmt.Sprint("runs=", runs), func(b *testing.B) {
			var all storebench.Measured
			bare := 0.0
			var commits int64  // server commits with writes, including notifications
			var cpu [4]float64 // seconds: of this process and the server, for the runs and for the bare writes
			for b.Loop() {
				b.StopTimer()
				pool, err := pgxpool.New(b.Context(), shared.DSN()+" pool_max_conns=32")
				if err != nil {
					b.Fatal(err)
				}
				schema := newSchema(b, shared.DSN())
				store := open(b, "", postgres.Options{Schema: schema, Pool: pool})
				s := storebench.Count(store)
				declared := storebench.NewRuns(b, s, runs, 12_800/runs)
				own, db := ownCPU(), serverCPU()
				first := nextTransaction(b)
				m := declared.Measure(b, s)
				commits += nextTransaction(b) - first - 1
				all.Add(m)
				cpu[0], cpu[1] = cpu[0]+ownCPU()-own, cpu[1]+serverCPU()-db
				write := floorSaver(b, pool, schema, runs)
				own, db = ownCPU(), serverCPU()
				rate := storebench.Bare(b, runs, m.SaveBytes(), write)
				bare += rate
				cpu[2], cpu[3] = cpu[2]+(ownCPU()-own)/rate, cpu[3]+(serverCPU()-db)/rate
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
				pool.Close()
				b.StartTimer()
			}
			all.Report(b, bare/float64(b.N))
			b.ReportMetric(float64(commits)/float64(all.Saves), "server-commits/transition")
			b.ReportMetric(cpu[0]/float64(all.Saves)*1e6, "own-us/transition")
			b.ReportMetric(cpu[1]/float64(all.Saves)*1e6, "db-us/transition")
			b.ReportMetric(cpu[2]/float64(b.N)*1e6, "own-us/bare")
			b.ReportMetric(cpu[3]/float64(b.N)*1e6, "db-us/bare")
		})
	}
}

// ownCPU is how much of the processors this process has taken, in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it never fails for the process itself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// nextTransaction is the number of a transaction that writes now: each takes the next one.
func nextTransaction(b *testing.B) (xid int64) {
	if err := session(b, shared.DSN()).QueryRow(b.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&xid); err != nil {
		b.Fatal(err)
	}
	return xid
}
