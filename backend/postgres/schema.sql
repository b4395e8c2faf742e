-- Version 1. {schema} is the quoted name of the schema.

CREATE SEQUENCE {schema}.revisions AS bigint CACHE 1 NO CYCLE;

-- A key's row stays when the key is deleted, without a value, until no watch needs it any more.
CREATE TABLE {schema}.records (
	key      text COLLATE "C" PRIMARY KEY,
	value    bytea,
	-- seq and nonce are the revision: a number that rises with each write of a key, and 64 random bits, since a standby
	-- that is promoted may give out numbers again that the lost primary gave out.
	seq      bigint NOT NULL,
	nonce    bigint NOT NULL,
	-- previous is seq before the last write, 0 if there was no row.
	previous bigint NOT NULL,
	-- sum is a checksum of key, nonce and value.
	sum      bigint NOT NULL,
	-- xid is the transaction of the last write: watches find by it what a snapshot did not see yet.
	xid      xid8 NOT NULL
);
-- Values are stored as they are: compressing takes longer than what it saves.
ALTER TABLE {schema}.records ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE INDEX records_xid ON {schema}.records (xid);
CREATE INDEX records_deleted ON {schema}.records (xid) WHERE value IS NULL;

-- The one row of meta says what the other tables are.
CREATE TABLE {schema}.meta (
	id          int PRIMARY KEY CHECK (id = 1),
	version     int NOT NULL,
	-- cluster is the system identifier of the server, '' if it may not be read; place are the ids of the database and the table.
	cluster     text NOT NULL,
	place       text NOT NULL,
	-- incarnation changes whenever all xids are set anew.
	incarnation text NOT NULL,
	-- Rows without a value whose xid is below purged may have been removed.
	purged      xid8 NOT NULL
);

-- Every transaction below xid had ended at this time.
CREATE TABLE {schema}.horizons (
	at  timestamptz PRIMARY KEY,
	xid xid8 NOT NULL
);
