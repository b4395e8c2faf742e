package target

import (
	"context"
	"io"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/postgres"
)

// Store is an open store.
type Store interface {
	backend.Store
	io.Closer
}

// InDatabase reports whether a store is named by the URL of a PostgreSQL database.
func InDatabase(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// OpenStore opens the store that an engine runs on: a file, which is made where it is missing, or a database, whose tables are.
func OpenStore(ctx context.Context, name string, o bolt.Options) (Store, error) {
	if InDatabase(name) {
		return postgres.Open(ctx, name, postgres.Options{Migrate: true})
	}
	return bolt.Open(name, o)
}
