-- write makes writes in the order of the arrays, and stops at the first that fails. Its caller has cut off what cannot succeed
-- whatever the table holds, so that of the writes of a key only the first depends on the table, and a second one follows on a
-- deletion. prevs are the numbers of the revisions that keys must have: 0 where the key must not exist, -1 for a second write of
-- a key, -2 for what is no revision. A write without a value is a deletion. firsts are the positions of the first writes of
-- keys, ascending by key.
CREATE OR REPLACE FUNCTION {schema}.write(
	keys text[], vals bytea[], sums bigint[], nonces bigint[], prevs bigint[], prev_nonces bigint[], firsts int[],
	OUT seqs bigint[], OUT absent boolean, OUT xid xid8, OUT commit_mode text
) LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
	n int := cardinality(keys);
	failed int := cardinality(keys) + 1;
	created boolean[] := array_fill(false, ARRAY[cardinality(keys)]);
	i int;
	s bigint;
	m bigint;
	live boolean;
BEGIN
	xid := pg_current_xact_id();
	commit_mode := current_setting('synchronous_commit');
	absent := false;
	seqs := '{}';
	-- Rows are locked in the order of their keys, so that batches never wait for each other in a circle. What is created is
	-- inserted at once, which locks it.
	FOREACH i IN ARRAY firsts LOOP
		LOOP
			SELECT r.seq, r.nonce, r.value IS NOT NULL INTO s, m, live FROM {schema}.records r WHERE r.key = keys[i] FOR UPDATE;
			EXIT WHEN FOUND;
			live := false;
			EXIT WHEN prevs[i] <> 0;
			INSERT INTO {schema}.records AS r (key, value, seq, nonce, previous, sum, xid)
				VALUES (keys[i], vals[i], nextval('{schema}.revisions'), nonces[i], 0, sums[i], write.xid)
				ON CONFLICT (key) DO NOTHING RETURNING r.seq INTO s;
			created[i] := FOUND;
			EXIT WHEN FOUND;
		END LOOP;
		IF created[i] THEN
			seqs[i] := s;
		ELSIF i < failed AND (prevs[i] = 0 AND live OR prevs[i] <> 0 AND (NOT live OR s <> prevs[i] OR m <> prev_nonces[i])) THEN
			failed := i;
			absent := NOT live;
		END IF;
	END LOOP;
	-- What was inserted behind the first write that failed is taken back.
	FOR i IN failed .. n LOOP
		IF created[i] THEN
			DELETE FROM {schema}.records r WHERE r.key = keys[i];
		END IF;
	END LOOP;
	FOR i IN 1 .. failed - 1 LOOP
		IF NOT created[i] THEN
			UPDATE {schema}.records r SET value = vals[i], seq = nextval('{schema}.revisions'), nonce = nonces[i],
				previous = r.seq, sum = sums[i], xid = write.xid
				WHERE r.key = keys[i] RETURNING r.seq INTO s;
			seqs[i] := s;
		END IF;
	END LOOP;
	seqs := seqs[1:failed - 1];
END
$$;

-- changes returns the rows that are visible now and were not in a snapshot: those of transactions that began behind it or went on
-- in it. Those between are not read, of which there are many while one transaction takes long. Whatever statistics say, the planner is to use
-- the index: it would take the rows for a third of the table.
CREATE OR REPLACE FUNCTION {schema}.changes(since pg_snapshot, OUT key text, OUT seq bigint, OUT nonce bigint, OUT deleted boolean, OUT xid xid8)
RETURNS SETOF record LANGUAGE sql STABLE SET search_path = pg_catalog SET enable_seqscan = off AS $$
	SELECT r.key, r.seq, r.nonce, r.value IS NULL, r.xid FROM {schema}.records r
	WHERE r.xid >= pg_snapshot_xmax(since) OR r.xid = ANY (ARRAY(SELECT pg_snapshot_xip(since)))
$$;
