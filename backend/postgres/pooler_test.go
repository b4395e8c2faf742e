package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/pgenv"
)

// pooler starts a PgBouncer in transaction mode before the shared server.
func pooler(t *testing.T, connections int) *pgenv.Pooler {
	t.Helper()
	p, err := shared.Pooler(connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// A store behind a pooler in transaction mode keeps the contract.
func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	p := pooler(t, 4)
	backendtest.TestStore(t, func(t *testing.T) backend.Store {
		return open(t, p.DSN()+" pool_max_conns=8", postgres.Options{Schema: newSchema(t, shared.DSN())})
	})
}

// Behind a pooler in transaction mode, notifications arrive only by chance. The store detects
// that, even if its own notifications arrive, and finds changes by polls alone.
func TestWatchesBehindAPooler(t *testing.T) {
	t.Parallel()
	t.Run("of a store that writes nothing", func(t *testing.T) { t.Parallel(); testWatchesBehindAPooler(t, 0) })
	t.Run("of a store that writes", func(t *testing.T) { t.Parallel(); testWatchesBehindAPooler(t, 5*time.Second) })
}

func testWatchesBehindAPooler(t *testing.T, writes time.Duration) {
	p := pooler(t, 2)
	var said logs
	o := postgres.Options{Schema: newSchema(t, p.DSN()), Logger: said.logger()}
	watcher := open(t, p.DSN(), o)
	changes := observe(t, watcher, "")
	changes.await(t, "own", put(t, watcher, "own"))
	for end := time.Now().Add(writes); time.Now().Before(end); {
		put(t, watcher, "own")
	}
	eventually(t, "the warning", func() bool { return said.has("a pooler is before the server, changes are found by polling alone") })
	writer := open(t, p.DSN(), postgres.Options{Schema: o.Schema, NoNotify: true})
	for i := range 5 {
		time.Sleep(500 * time.Millisecond) // the interval would have grown by then
		key := fmt.Sprint(i)
		rev := put(t, writer, key)
		written := time.Now()
		changes.await(t, key, rev)
		if late := changes.when(key).Sub(written); late > 900*time.Millisecond {
			t.Errorf("the change of %s arrived after %v, polls are every 200 ms", key, late)
		}
	}
}
