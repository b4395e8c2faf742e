// Package pgenv runs real PostgreSQL servers for tests, on a loopback address, with fsync on.
//
//	server, err := pgenv.Start(pgenv.Options{})
//	defer server.Close()
//	... server.DSN() ...
//
// A server can be stopped, killed, restarted, copied as a standby and promoted, and can have a
// PgBouncer in front. If the tests run as root, the server runs as the user postgres or another
// unprivileged user, because PostgreSQL refuses to run as root.
//
// The package looks for PostgreSQL 15 or newer in the directory that SLIPWAY_POSTGRES names, by
// pg_config, in the usual directories of Linux distributions, and in PATH. It looks for PgBouncer
// in PATH and /usr/sbin. If a program is missing, the test fails with a message; it is never
// skipped.
package pgenv
