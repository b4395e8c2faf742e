package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
)

// Migrate creates the schema and the tables of a store, upgrades tables of an older version, and
// adopts tables that were restored from a dump. It may be called repeatedly and concurrently;
// tables of a newer version are ErrPermanent. It uses only the options Pool and Schema.
//
// It needs the right to create the schema, or to create tables in an existing one. The role of
// the store needs less: see the documentation of the package.
func Migrate(ctx context.Context, dsn string, o Options) error {
	o, err := o.complete()
	if err != nil {
		return failed("migrate", "schema "+o.Schema, err)
	}
	pool, own, err := connect(ctx, dsn, o)
	if err != nil {
		return failed("migrate", "schema "+o.Schema, err)
	}
	if own {
		defer pool.Close()
	}
	s := &Store{o: o}
	err = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		return s.failure(c, pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return migrate(ctx, tx, o.Schema) }))
	})
	if err != nil {
		return failed("migrate", "schema "+o.Schema, withoutSecrets(err))
	}
	return nil
}

func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockOf(schema)); err != nil {
		return err
	}
	version, err := versionOf(ctx, tx, schema)
	switch {
	case err != nil:
		return err
	case version > schemaVersion:
		return wrongVersion(schema, version)
	case version == 0:
		if err := create(ctx, tx, schema); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, in(schema, functionsSQL), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	return adopt(ctx, tx, schema)
}

// lockOf returns the advisory lock of a schema's migrations.
func lockOf(schema string) int64 {
	sum := sha256.Sum256([]byte("slipway migrate " + schema))
	return int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // the conversion keeps all 64 bits
}

// versionOf returns the version of the tables in a schema, 0 if there are none.
func versionOf(ctx context.Context, tx pgx.Tx, schema string) (version int, err error) {
	var exists bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, `"`+schema+`".meta`).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = tx.QueryRow(ctx, in(schema, `SELECT version FROM {schema}.meta`)).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("%w: the table meta of schema %s is not one of this package", backend.ErrPermanent, schema)
	}
	return version, err
}

// create creates the tables, and the schema if it is missing.
func create(ctx context.Context, tx pgx.Tx, schema string) error {
	var exists bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&exists); err != nil {
		return err
	}
	script := schemaSQL
	if !exists {
		script = "CREATE SCHEMA {schema};\n" + script
	}
	if _, err := tx.Exec(ctx, in(schema, script), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, in(schema, `INSERT INTO {schema}.meta (id, version, cluster, place, incarnation, purged) VALUES (1, $1, '', '', '', '0')`),
		schemaVersion)
	return err
}

// adopt binds the tables to this database, because xids of another database have no meaning here.
func adopt(ctx context.Context, tx pgx.Tx, schema string) error {
	var version int
	var cluster, place, here string
	var future bool
	if err := tx.QueryRow(ctx, statementsFor(schema).meta).Scan(&version, &cluster, &place, &here, &future); err != nil {
		return err
	}
	now, err := systemIdentifierIn(ctx, tx)
	if err != nil {
		return err
	}
	if place != "" && !future && !restored(cluster, now, place, here) {
		return nil
	}
	for _, statement := range []string{
		`DELETE FROM {schema}.horizons`,
		`UPDATE {schema}.records SET xid = pg_current_xact_id()`,
		`SELECT setval('{schema}.revisions', greatest((SELECT max(seq) FROM {schema}.records), (SELECT last_value FROM {schema}.revisions)))`,
	} {
		if _, err := tx.Exec(ctx, in(schema, statement)); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, in(schema, `UPDATE {schema}.meta SET cluster = $1, place = $2, incarnation = $3, purged = '0'`), now, here, randomID())
	return err
}

// systemIdentifierIn is systemIdentifier in a transaction, which continues if the identifier may
// not be read.
func systemIdentifierIn(ctx context.Context, tx pgx.Tx) (id string, err error) {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return "", err
	}
	err = savepoint.QueryRow(ctx, systemSQL).Scan(&id)
	if err == nil {
		return id, savepoint.Commit(ctx)
	}
	if !noFunction(err) {
		return "", err
	}
	return "", savepoint.Rollback(ctx)
}
