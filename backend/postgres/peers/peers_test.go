package peers

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/pgenv"
	"github.com/slipway-dev/slipway/internal/storebench"
)

// connections is the maximum number of connections of each system, atOnce the number of
// concurrent workflows or runs.
const connections, atOnce = 32, 64

// server is the server of both systems.
var server *pgenv.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if server, err = pgenv.Start(pgenv.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = server.Close() }()
		return m.Run()
	}())
}

func pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), fmt.Sprintf("%s pool_max_conns=%d", server.DSN(), connections))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// threeSteps is a workflow of three steps that do nothing.
func threeSteps(ctx dbos.Context, _ string) (string, error) {
	for range 3 {
		if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return "done", nil }); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// workflows returns a function that runs so many workflows to their end, and says how long that
// took.
func workflows(t testing.TB) func(n int) time.Duration {
	t.Helper()
	ctx, err := dbos.NewContext(t.Context(), dbos.Config{AppName: "peer", SystemDBPool: pool(t), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	dbos.RegisterWorkflow(ctx, threeSteps)
	if err := dbos.Launch(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dbos.Shutdown(ctx, 10*time.Second) })
	return func(n int) time.Duration {
		var all sync.WaitGroup
		began := time.Now()
		for range atOnce {
			all.Go(func() {
				for range n / atOnce {
					handle, err := dbos.RunWorkflow(ctx, threeSteps, "")
					if err == nil {
						_, err = handle.GetResult()
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		return time.Since(began)
	}
}

// runs drives runs over a cluster each, which is updated at once, to their end.
func runs(b *testing.B, n int, schema string) (made storebench.Measured) {
	b.Helper()
	if err := postgres.Migrate(b.Context(), server.DSN(), postgres.Options{Schema: schema}); err != nil {
		b.Fatal(err)
	}
	s, err := postgres.Open(b.Context(), "", postgres.Options{Schema: schema, Pool: pool(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	counted := storebench.Count(s)
	return storebench.NewRuns(b, counted, n, 1).Measure(b, counted)
}

// count returns how many rows a query counts.
func count(t testing.TB, query string) (n int) {
	t.Helper()
	if err := pool(t).QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestThePeerMakesThreeStepsDurable: each step of a workflow is a row, which proves that the
// benchmark compares durable steps.
func TestThePeerMakesThreeStepsDurable(t *testing.T) {
	workflows(t)(atOnce)
	if n := count(t, "SELECT count(*) FROM dbos.operation_outputs"); n != 3*atOnce {
		t.Errorf("%d workflows of three steps have %d rows", atOnce, n)
	}
}

// BenchmarkDurableSteps has workflows of three steps, 64 at the same time, and runs of one
// cluster carried out by turns, over as many connections. A step is a row that is committed, and
// so are the beginning and the end of a workflow; a transition is a save of a run that is
// committed.
func BenchmarkDurableSteps(b *testing.B) {
	const n = 10 * atOnce
	peer := workflows(b)
	peer(atOnce) // connections are made
	var took time.Duration
	var own storebench.Measured
	for i := range b.N {
		took += peer(n)
		own.Add(runs(b, n, fmt.Sprintf("own_%d_%d", b.N, i)))
		took += peer(n)
	}
	both := float64(2 * n * b.N)
	b.ReportMetric(both/took.Seconds(), "peer-workflows/s")
	b.ReportMetric(3*both/took.Seconds(), "peer-steps/s")
	b.ReportMetric(float64(n*b.N)/own.Took.Seconds(), "runs/s")
	b.ReportMetric(float64(own.Saves)/own.Took.Seconds(), "transitions/s")
	b.ReportMetric(float64(own.Saves)/float64(n*b.N), "transitions/run")
	b.ReportMetric(float64(own.Commits)/float64(n*b.N), "commits/run")
}
