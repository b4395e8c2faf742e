// Package postgres is a [backend.Store] in a PostgreSQL database, for several processes that
// share it.
//
//	err := postgres.Migrate(ctx, dsn, postgres.Options{}) // as the owner, once for each version of this package
//	store, err := postgres.Open(ctx, dsn, postgres.Options{})
//	defer store.Close()
//
// It needs PostgreSQL 15 or newer. A schema has one store: each tenant has its own schema.
//
// # Guarantees
//
// A write that returned without an error is committed and on the disk of the server and of its
// synchronous standbys. Each Put, Delete and WriteAll is one statement, one round trip and one
// transaction. Calls that arrive while others are sent share the next transaction, up to 32 calls
// and 1 MiB. At most two transactions run at a time; the second starts as soon as it has as many
// calls as the first. A WriteAll of more than eight writes has its own transaction. Each call of a
// shared transaction succeeds or conflicts on its own. If a row is locked, the other calls of the
// transaction wait at most 100 ms for it. Then, as after a refusal by the server, each call has a
// transaction of its own. A statement locks its rows in the order of their keys, so that two
// separate calls never deadlock. Shared transactions are ordered by the first key of each call; if
// two wait for each other's rows, the wait ends after these 100 ms. Keys are compared byte by byte.
// Get and List verify a checksum of key and value; a damaged value is backend.ErrPermanent.
//
// A revision is a number of a sequence, which rises with each write of a key, and 64 random bits.
// No two writes have the same revision, even after a deletion, a restored dump or a failover that
// resets the sequence.
//
// # Errors
//
// Besides ErrConflict and ErrNotFound there is ErrPermanent: if tables are missing or have
// another version (ErrNotMigrated: call Migrate), if the role lacks a privilege, and if the
// database is damaged. Everything else is transient: a deadlock, a full disk, too many
// connections, a shutdown, a standby, a pool that is exhausted until the context ends. A write
// with a transient error may have succeeded: its answer may have been lost after the commit. No
// error contains the connection string or a password; it may contain the names of hosts, users
// and databases.
//
// # Durability
//
// Open, and the first use of each connection, refuse a server with fsync or synchronous_commit
// off ([ErrNotDurable]). Each write also returns the session's synchronous_commit, so that the
// store acknowledges no write after the host or a pooler has turned it off. An administrator can
// end the wait of a commit for its synchronous standby. A store with its own pool does not
// acknowledge such a commit, if client_min_messages does not hide warnings; a store on a host's
// pool does not detect it. full_page_writes must be on unless the file system writes pages
// atomically. Readers may see a commit before its synchronous standby has it:
// https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT
//
// # Replication
//
// Fail over to synchronous standbys: synchronous_standby_names = 'ANY 1 (a, b)' with two standbys
// loses no acknowledged write, and continues if one standby is down. synchronous_commit = local
// does not wait for standbys; with remote_write, a standby that crashes loses data that it has not
// flushed. The connection string should name all servers ("host=a,b,c
// target_session_attrs=read-write", which is Open's default); the store leaves a server that is or
// becomes a standby. A Store that has seen the new primary recognizes an old primary that still
// runs by its timeline, and refuses it; the cluster's manager must keep clients away from it.
// https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION
//
// An asynchronous standby that takes over may lack acknowledged writes. A Store remembers its last
// acknowledged writes of 1,024 keys, and compares them with the content of the new server before it
// uses that server for anything else. It logs lost writes, and [Store.Lost] returns their keys. A
// write is certainly lost, and reported, if
//
//   - the row has a lower number, or the same number with other random bits: the numbers of a
//     key's writes rise;
//   - the row has a higher number, but before its last write it had a lower number than the lost
//     write, although a later write would have followed the lost write;
//   - the row is missing, and no deletion after the lost write can have been old enough for its
//     row to be removed.
//
// A lost write is not detected if others have written its key twice on the new server, if its
// number was issued again at once, and if this process did not write it or does not remember it.
// A reported key has certainly lost a write.
//
// # Watches
//
// A Store polls for all of its watches, over its own connection, every 200 ms and less often
// while nothing changes. Each row has the number of the last transaction that wrote it. A poll
// reads the rows whose transaction was not visible in the snapshot of the previous poll. So the
// changes of a long transaction are found when it commits, and it delays no other changes. Polls
// lock nothing. After a commit a Store wakes the Stores of other processes with a notification, in
// a separate transaction, at most one every 20 ms, because notifications take a lock of the whole
// server. A change arrives within some milliseconds.
//
// Deletions stay in the table for an hour (Options.Retention). Watches end with an error, and
// must begin again, if a process was cut off for longer, if another server took over, if a dump
// was restored, and if a consumer is 65,536 keys behind. A restart or a crash of the server does
// not end them.
//
// # Poolers
//
// In transaction mode, for example of PgBouncer, a pooler must support prepared statements
// (max_prepared_statements), or the connection string must contain default_query_exec_mode=exec;
// notifications arrive only by chance. A Store detects a pooler by the number of the server's
// process, and then polls every 200 ms, in session mode as well. Behind a pooler, a Store detects
// a failover only while it has watches. Connections of a host's pool may receive notifications of
// other subscribers: the pool's OnNotification should drop them, because pgx keeps them otherwise.
// Do not use a pooler in statement mode.
//
// # Privileges
//
// Migrate needs CREATE on the database, or ownership of the schema. The role of a store needs
//
//	GRANT USAGE ON SCHEMA slipway TO role;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA slipway TO role;
//	GRANT USAGE ON ALL SEQUENCES IN SCHEMA slipway TO role;
//
// and, if they were revoked from PUBLIC, EXECUTE on the functions of the schema, on pg_notify,
// pg_current_wal_lsn, pg_walfile_name and pg_control_system. [Open] names missing privileges.
// With Options.ReadOnly, USAGE on the schema and SELECT on the tables are enough. Without
// pg_current_wal_lsn and pg_walfile_name, timelines are unknown and a failover is not detected. A
// role that may write to the tables controls the store: checksums detect only accidents.
//
// # Isolation
//
// The statements require the isolation level READ COMMITTED, the default. If a role has another
// default_transaction_isolation, some conflicts are transient errors instead of ErrConflict.
//
// # Backups
//
// A restored dump has transaction numbers of another server or time: Open refuses it until Migrate
// has reset them. The same is true of a database after pg_upgrade. A physical copy needs no
// Migrate; open stores see a new timeline.
// https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SNAPSHOT
package postgres
