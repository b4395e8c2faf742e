package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/pgenv"
)

// shared is the server of tests that do not change its configuration.
var shared *pgenv.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if isEngine() {
			return 1
		}
		s, err := pgenv.Start(pgenv.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		shared = s
		defer func() {
			if err := s.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		return m.Run()
	}())
}

var schemas atomic.Int64

// newSchema makes the tables of a store in a schema of its own.
func newSchema(t testing.TB, dsn string) string {
	t.Helper()
	schema := fmt.Sprintf("test_%d", schemas.Add(1))
	if err := postgres.Migrate(t.Context(), dsn, postgres.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	return schema
}

// open opens a store, and closes it with the test.
func open(t testing.TB, dsn string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fresh opens an empty store on the shared server.
func fresh(t testing.TB, o postgres.Options) *postgres.Store {
	t.Helper()
	o.Schema = newSchema(t, shared.DSN())
	return open(t, shared.DSN()+" pool_max_conns=8", o)
}

// sql runs statements on a connection of its own.
func sql(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	c := session(t, dsn) // also in the cleanup of a test
	for _, statement := range statements {
		if _, err := c.Exec(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// session returns a connection, which is closed with the test.
func session(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// eventually asks until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// contains fails the test if err has not this text.
func contains(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("the error is %v, want one with %q", err, text)
	}
}
