package postgres_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/pgenv"
)

// The programs of PostgreSQL back a store up and restore it, as docs/howto/back-up-and-restore.md
// shows. Writes after the dump are gone, and the store takes new ones.
func TestAStoreIsRestoredFromADump(t *testing.T) {
	programs, err := pgenv.Programs()
	if err != nil {
		t.Fatal(err)
	}
	do := func(program string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), filepath.Join(programs, program), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	dsn, dump := shared.DSN(), filepath.Join(t.TempDir(), "monday.dump")
	o := postgres.Options{Schema: newSchema(t, dsn)}
	s := open(t, dsn, o)
	dumped := put(t, s, "a")
	do("pg_dump", "--format=custom", "--schema="+o.Schema, "--file="+dump, dsn)
	put(t, s, "a")
	put(t, s, "b")
	s.Close()
	do("psql", "--command=DROP SCHEMA "+o.Schema+" CASCADE", dsn)
	do("pg_restore", "--dbname="+dsn, dump)
	o.Migrate = true
	s = open(t, dsn, o)
	if r, err := s.Get(t.Context(), "a"); err != nil || r.Revision != dumped {
		t.Errorf("%+v, %v, want revision %s", r, err, dumped)
	}
	put(t, s, "a")
	put(t, s, "b")
}
