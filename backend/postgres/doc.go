// Package postgres is a [backend.Store] in a PostgreSQL database, for several processes that share it.
//
//	err := postgres.Migrate(ctx, dsn, postgres.Options{}) // as the owner, once for each version of this package
//	store, err := postgres.Open(ctx, dsn, postgres.Options{})
//	defer store.Close()
//
// It needs PostgreSQL 15 or newer. A schema has one store: several tenants have a schema each.
//
// # What is promised
//
// A write that returned without an error is committed and on the disk of the server, and on that of its synchronous standbys.
// Put, Delete and WriteAll are one statement each, one round trip, and one transaction. Those that arrive while others are sent
// share the next transaction, up to 32 calls and 1 MiB; it is sent beside another one once it has as many calls, and there are at
// most two. A WriteAll of more than eight writes has a transaction to itself. Each call is made or in conflict for itself. Where a
// row is locked, the others of the transaction wait at most 100 ms for it; then each is made alone, as where the server refuses one.
// A statement locks its rows in the order of their keys, so that two that are alone never deadlock; shared transactions go by the
// first key of each call, and where two wait for each other's rows, they do so for these 100 ms. Keys are compared byte by byte. Get
// and List verify a checksum of key and value; a value that was damaged is backend.ErrPermanent.
//
// A revision is a number of a sequence, which rises with each write of a key, and 64 random bits: no two writes have the same
// one, also after a deletion, a restored dump or a failover that has the sequence go back.
//
// # Errors
//
// Besides ErrConflict and ErrNotFound there is ErrPermanent where tables are missing or of another version (ErrNotMigrated: call Migrate), where
// the role lacks a privilege, and where the database is damaged. Everything else is transient: a deadlock, a full disk, too many
// connections, a shutdown, a standby, a pool that is used up until the context ends. A write that returns a transient error may
// have happened: its answer may have been lost behind the commit. No error has the connection string or a password; it may have
// the names of hosts, users and databases.
//
// # Durability
//
// Open, and each connection when it is used first, refuses a server with fsync or synchronous_commit off ([ErrNotDurable]). Each
// write returns the session's synchronous_commit too, so that a session that was changed later, by the host or through a pooler,
// acknowledges nothing. With the store's own pool, a commit that an administrator released from waiting for its synchronous
// standby is not acknowledged either, for which client_min_messages must not hide warnings; a host with a pool of its own does not
// have that. full_page_writes must be on unless the
// file system writes pages whole. Readers may see a commit before its synchronous standby has it:
// https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT
//
// # Replication
//
// Fail over to synchronous standbys: synchronous_standby_names = 'ANY 1 (a, b)' with two of them loses nothing acknowledged, and
// goes on when one is down. synchronous_commit = local does not wait for standbys, and remote_write loses what a standby has not
// flushed when it crashes as well. The connection string names all servers
// ("host=a,b,c target_session_attrs=read-write", which is what Open demands unless it says otherwise); one that is a standby or
// becomes one is left for another. An old primary that runs on beside the one that took over is refused by a Store that has seen
// the new one, by its timeline; keeping clients away from it is the task of the cluster's manager.
// https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION
//
// An asynchronous standby that takes over may lack acknowledged writes. A Store remembers its last acknowledged writes of 1,024
// keys, and compares them with what the new server has before it does anything else there. What is found is logged, and
// [Store.Lost] has the keys. A write is lost for certain, and told, if
//
//   - the row has a lower number, or the same with other random bits: the numbers of a key's writes rise;
//   - the row has a higher number, but was at a lower one before its last write: a later write would follow on the lost one;
//   - the row is missing, and no deletion behind the lost write can have been old enough for its row to be removed.
//
// What cannot be told is a lost write whose key was since written twice by others on the new server, one whose number was given
// out again at once, and what this process did not write or does not remember. On its part, a key that is told has lost a write.
//
// # Watches
//
// A Store polls for all of its watches, over a connection of its own, every 200 ms and less often while nothing changes. Each
// row has the number of the transaction that wrote it last; a poll reads the rows whose transaction was not visible in the
// snapshot of the poll before, so that a transaction that takes long is found when it is committed and delays no other. Nothing is
// locked. After a commit a Store wakes those of other processes with a notification, in a transaction of its own, at most one
// every 20 ms, because notifications take a lock of the whole server. A change arrives within some milliseconds.
//
// Deletions stay in the table for an hour (Options.Retention). Watches end with an error, and have to begin again, if a process
// was cut off for longer, if another server took over, if a dump was restored, and if a consumer is 65,536 keys behind. A
// restart or a crash of the server does not end them.
//
// # Poolers
//
// In transaction mode, as of PgBouncer, a pooler must support prepared statements (max_prepared_statements), or the connection
// string has default_query_exec_mode=exec; it is chance which notifications arrive. A Store sees by the number of the server's process
// that a pooler is between, and polls every 200 ms then, in session mode as well. A failover behind a pooler is seen only while
// there are watches. Connections of a host's pool may get notifications that others subscribed to: have its OnNotification drop
// them, which pgx keeps otherwise. Do not pool by statement.
//
// # Privileges
//
// Migrate needs CREATE on the database, or ownership of the schema. The role of a store needs
//
//	GRANT USAGE ON SCHEMA slipway TO role;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA slipway TO role;
//	GRANT USAGE ON ALL SEQUENCES IN SCHEMA slipway TO role;
//
// and, where they were taken from PUBLIC, EXECUTE on the functions of the schema, on pg_notify, pg_current_wal_lsn,
// pg_walfile_name and pg_control_system. [Open] names what is missing. A role with USAGE on the schema and SELECT on the tables may
// read, with Options.ReadOnly. Without the second and third, timelines are not known and a failover is not detected.
// A role that may write to the tables has control over the store: checksums find accidents.
//
// # Isolation
//
// Statements are made for READ COMMITTED, the default. Where a role has another default_transaction_isolation, some conflicts
// are transient errors instead of ErrConflict.
//
// # Backups
//
// A dump that is restored has transaction numbers of another server or time: Open refuses it, and Migrate sets them again. So does a
// database after pg_upgrade. A physical copy needs nothing; stores that are open see a new timeline.
// https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SNAPSHOT
package postgres
