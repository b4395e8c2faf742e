package postgres_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/slipway-dev/slipway/backend/postgres"
)

// The tables are made once, by their owner; then every process opens the store.
func Example() {
	dsn := shared.DSN() // postgres://slipway@db-1,db-2/fleet?sslmode=verify-full
	fmt.Println(write(context.Background(), dsn, slog.New(slog.DiscardHandler)))
	// Output: put run/web-1: conflict
}

func write(ctx context.Context, dsn string, logger *slog.Logger) error {
	if err := postgres.Migrate(ctx, dsn, postgres.Options{}); err != nil { // makes or upgrades the tables, as their owner
		return err
	}
	store, err := postgres.Open(ctx, dsn, postgres.Options{Logger: logger}) // on the server of several that takes writes
	if err != nil {
		return err
	}
	defer store.Close()
	first, err := store.Put(ctx, "run/web-1", []byte("half done"), "")
	if err != nil {
		return err
	}
	if _, err := store.Put(ctx, "run/web-1", []byte("done"), first); err != nil {
		return err
	}
	_, err = store.Put(ctx, "run/web-1", []byte("late"), first)
	return err
}
