package postgres

import (
	_ "embed"
	"strings"
)

// schemaVersion is the version of the tables.
const schemaVersion = 1

//go:embed schema.sql
var schemaSQL string

//go:embed functions.sql
var functionsSQL string

// timelineSQL is the timeline of a server in hexadecimal digits, which are the start of the name
// of its log's file.
const timelineSQL = `CASE WHEN pg_is_in_recovery() THEN '' ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END`

// statements are the statements of one schema.
type statements struct {
	create, update, write               string
	get, page                           string
	meta                                string
	acknowledged                        string
	horizon, advance, forget, tombstone string
	schema                              string
}

// in inserts the name of the schema into a statement.
func in(schema, statement string) string {
	return strings.ReplaceAll(statement, "{schema}", `"`+schema+`"`)
}

// server returns the statement that describes a server.
func (s statements) server(noTimeline bool) string {
	return in(s.schema, `SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('client_min_messages'),
		pg_is_in_recovery(), `+s.timeline(noTimeline)+`, `+incarnationSQL+` FROM {schema}.meta m`)
}

// begin returns the statement for the beginning of a watch: it reads the existing records in a
// range of keys, and a position.
func (s statements) begin(noTimeline bool) string {
	return in(s.schema, `SELECT `+incarnationSQL+`, (SELECT pg_current_snapshot()::text), (SELECT `+s.timeline(noTimeline)+`),
			coalesce((SELECT xid FROM {schema}.records ORDER BY xid DESC LIMIT 1), '0'), r.key, r.seq, r.nonce
		FROM {schema}.meta m LEFT JOIN {schema}.records r ON r.key >= $1::text AND r.key < $2::text AND r.value IS NOT NULL`)
}

// changes returns the statement of a poll: it reads the rows that are visible now and were not in
// a snapshot.
func (s statements) changes(noTimeline bool) string {
	return in(s.schema, `SELECT `+incarnationSQL+`, (SELECT pg_current_snapshot()::text), (SELECT `+s.timeline(noTimeline)+`), m.purged, pg_backend_pid(),
			r.key, r.seq, r.nonce, r.deleted, r.xid
		FROM {schema}.meta m LEFT JOIN {schema}.changes($1::text::pg_snapshot) r ON true`)
}

// timeline returns the expression of the server's timeline.
func (s statements) timeline(none bool) string {
	if none {
		return `''`
	}
	return timelineSQL
}

func statementsFor(schema string) statements {
	q := func(statement string) string { return in(schema, statement) }
	return statements{
		schema: schema,
		// The number is taken after the row is locked, or from a snapshot with the row's last write, so
		// the numbers of a key's writes rise.
		create: q(`INSERT INTO {schema}.records AS r (key, value, nonce, sum, seq, previous, xid)
			VALUES ($1::text, $2::bytea, $3::bigint, $4::bigint, nextval('{schema}.revisions'), 0, pg_current_xact_id())
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, nonce = excluded.nonce, sum = excluded.sum,
				seq = nextval('{schema}.revisions'), previous = r.seq, xid = excluded.xid
				WHERE r.value IS NULL
			RETURNING r.seq, r.xid, current_setting('synchronous_commit')`),
		update: q(`UPDATE {schema}.records SET value = $2::bytea, nonce = $3::bigint, sum = $4::bigint,
				seq = nextval('{schema}.revisions'), previous = seq, xid = pg_current_xact_id()
			WHERE key = $1::text AND seq = $5::bigint AND nonce = $6::bigint AND value IS NOT NULL
			RETURNING seq, xid, current_setting('synchronous_commit')`),
		write: q(`SELECT seqs, absent, xid, commit_mode FROM {schema}.write($1::text[], $2::bytea[], $3::bigint[], $4::bigint[],
			$5::bigint[], $6::bigint[], $7::int[])`),
		get: q(`SELECT value, seq, nonce, sum FROM {schema}.records WHERE key = $1::text AND value IS NOT NULL`),
		page: q(`SELECT key, value, seq, nonce, sum FROM {schema}.records
			WHERE key >= $1::text AND key < $2::text AND value IS NOT NULL ORDER BY key LIMIT $3::bigint`),
		meta: q(`SELECT version, cluster, place, ` + placeSQL + `,
			coalesce((SELECT xid FROM {schema}.records ORDER BY xid DESC LIMIT 1) >= pg_snapshot_xmax(pg_current_snapshot()), false)
			FROM {schema}.meta`),
		acknowledged: q(`SELECT a.key, m.purged, r.seq, r.nonce, r.previous FROM unnest($1::text[]) AS a(key)
			CROSS JOIN {schema}.meta m LEFT JOIN {schema}.records r ON r.key = a.key`),
		horizon: q(`INSERT INTO {schema}.horizons (at, xid) SELECT now(), pg_snapshot_xmin(pg_current_snapshot())
			WHERE NOT EXISTS (SELECT 1 FROM {schema}.horizons WHERE at > now() - $1::interval) ON CONFLICT DO NOTHING`),
		advance: q(`UPDATE {schema}.meta SET purged = h.xid
			FROM (SELECT xid FROM {schema}.horizons WHERE at <= now() - $1::interval ORDER BY at DESC LIMIT 1) h WHERE purged < h.xid`),
		forget: q(`DELETE FROM {schema}.horizons WHERE at <
			(SELECT max(at) FROM {schema}.horizons WHERE at <= now() - $1::interval)`),
		tombstone: q(`DELETE FROM {schema}.records WHERE key = ANY (ARRAY(SELECT key FROM {schema}.records
			WHERE value IS NULL AND xid < (SELECT purged FROM {schema}.meta) ORDER BY xid LIMIT $1::int FOR UPDATE SKIP LOCKED))`),
	}
}

// systemSQL reads the identifier of the database cluster.
const systemSQL = `SELECT system_identifier::text FROM pg_control_system()`

// incarnationSQL identifies the table of records beside the incarnation: a dump that is restored
// in its place has the same text in meta, but makes another table.
const incarnationSQL = `m.incarnation || '.' || '{schema}.records'::regclass::oid`

// placeSQL reads the ids of the database and the table.
const placeSQL = `(SELECT oid::text FROM pg_database WHERE datname = current_database()) || '.' || '{schema}.records'::regclass::oid::text`
