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

// Behind a pooler in transaction mode notifications do not arrive: the store notices, and finds changes by polls alone.
func TestWatchesBehindAPooler(t *testing.T) {
	t.Parallel()
	p := pooler(t, 4)
	var said logs
	o := postgres.Options{Schema: newSchema(t, p.DSN()), Logger: said.logger()}
	watcher := open(t, p.DSN(), o)
	changes := observe(t, watcher, "")
	eventually(t, "the warning", func() bool { return said.has("notifications do not arrive, changes are found by polling alone") })
	writer := open(t, p.DSN(), postgres.Options{Schema: o.Schema, NoNotify: true})
	for i := range 5 {
		key := fmt.Sprint(i)
		rev := put(t, writer, key)
		written := time.Now()
		changes.await(t, key, rev)
		if late := changes.when(key).Sub(written); late > time.Second {
			t.Errorf("the change of %s arrived after %v, polls are every 200 ms", key, late)
		}
	}
}
