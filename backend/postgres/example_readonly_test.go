package postgres_test

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend/postgres"
)

// A program that only shows the state opens the store with a role that may only read.
func ExampleOpen_readOnly() {
	fmt.Println(read(context.Background(), shared.DSN()))
	// Output:
	// half done
	// put run/web-2: permanent error: the store was opened to be read
}

func read(ctx context.Context, dsn string) error {
	const schema = "example_read_only"
	writer, err := postgres.Open(ctx, dsn, postgres.Options{Schema: schema, Migrate: true})
	if err != nil {
		return err
	}
	defer writer.Close()
	if _, err := writer.Put(ctx, "run/web-2", []byte("half done"), ""); err != nil {
		return err
	}
	reader, err := postgres.Open(ctx, dsn, postgres.Options{Schema: schema, ReadOnly: true})
	if err != nil {
		return err
	}
	defer reader.Close()
	r, err := reader.Get(ctx, "run/web-2")
	if err != nil {
		return err
	}
	fmt.Println(string(r.Value))
	_, err = reader.Put(ctx, "run/web-2", []byte("done"), r.Revision)
	return err
}
