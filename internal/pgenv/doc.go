// Package pgenv runs real PostgreSQL servers for tests, on a loopback address, with fsync on.
//
//	server, err := pgenv.Start(pgenv.Options{})
//	defer server.Close()
//	... server.DSN() ...
//
// A server can be stopped, killed, started again, copied as a standby and promoted, and have a PgBouncer before it. Where the tests run as root, it runs as
// the user postgres, or an unprivileged one, since PostgreSQL refuses to run as root.
//
// PostgreSQL 15 or newer is found in the directory that SLIPWAY_POSTGRES names, by pg_config, where distributions of Linux
// install it, or in PATH; PgBouncer in PATH or /usr/sbin. Where one is missing, the test fails and says so; it is never skipped.
package pgenv
