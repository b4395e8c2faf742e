package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/pgenv"
)

func TestOpenRefuses(t *testing.T) {
	dsn := shared.DSN()
	for name, c := range map[string]struct {
		prepare []string // {schema} is the schema of a store
		dsn     string
		schema  string
		want    string
	}{
		"no tables":         {schema: "empty", want: "call postgres.Migrate"},
		"no name":           {schema: `a"; DROP TABLE x`, want: "is no name of a schema"},
		"a reserved name":   {schema: "pg_x", want: "is no name of a schema"},
		"an older version":  {prepare: []string{"UPDATE {schema}.meta SET version = 0"}, want: "call postgres.Migrate"},
		"a newer version":   {prepare: []string{"UPDATE {schema}.meta SET version = 99"}, want: "a newer version"},
		"another cluster":   {prepare: []string{"UPDATE {schema}.meta SET cluster = '1'"}, want: "restored from a dump"},
		"an emptied meta":   {prepare: []string{"DELETE FROM {schema}.meta"}, want: "call postgres.Migrate"},
		"no durable commit": {dsn: dsn + " options='-c synchronous_commit=off'", want: "synchronous_commit is off"},
		"no text":           {dsn: "host=127.0.0.1 port=secret-port password=hidden", want: "cannot be parsed"},
	} {
		t.Run(name, func(t *testing.T) {
			o := postgres.Options{Schema: c.schema}
			if o.Schema == "" {
				o.Schema = newSchema(t, dsn)
			}
			for _, statement := range c.prepare {
				sql(t, dsn, strings.ReplaceAll(statement, "{schema}", o.Schema))
			}
			s, err := postgres.Open(t.Context(), cmpOr(c.dsn, dsn), o)
			if err == nil {
				s.Close()
			}
			contains(t, err, c.want)
			if !errors.Is(err, backend.ErrPermanent) {
				t.Errorf("%v is not permanent", err)
			}
			helps := strings.HasSuffix(c.want, "postgres.Migrate") || c.want == "restored from a dump"
			if errors.Is(err, postgres.ErrNotMigrated) != helps {
				t.Errorf("%v: Migrate helps: %t", err, helps)
			}
		})
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestAServerWithoutFsyncIsRefused(t *testing.T) {
	server, err := pgenv.Start(pgenv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	schema := newSchema(t, server.DSN())
	s := open(t, server.DSN()+" pool_max_conns=2", postgres.Options{Schema: schema})
	if err := server.Set("fsync = off"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "fsync is off", func() bool {
		other, err := postgres.Open(t.Context(), server.DSN(), postgres.Options{Schema: schema})
		if err == nil {
			other.Close()
		}
		return errors.Is(err, postgres.ErrNotDurable)
	})
	// A store that is open refuses new connections to it.
	sql(t, server.DSN(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	eventually(t, "the store refuses the server", func() bool {
		_, err := s.Put(t.Context(), "a", nil, "")
		return errors.Is(err, postgres.ErrNotDurable)
	})
}

// A session whose setting is changed behind the store's back acknowledges nothing.
func TestACommitThatIsNotDurableIsNotAcknowledged(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), shared.DSN()+" pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := open(t, "", postgres.Options{Schema: newSchema(t, shared.DSN()), Pool: pool, NoNotify: true})
	rev, err := s.Put(t.Context(), "a", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "SET synchronous_commit = off"); err != nil {
		t.Fatal(err)
	}
	_, putErr := s.Put(t.Context(), "a", nil, rev)
	_, batchErr := s.WriteAll(t.Context(), []backend.Write{{Key: "b"}, {Key: "c"}})
	for _, err := range []error{putErr, batchErr} {
		contains(t, err, "synchronous_commit is off")
		transient(t, err)
	}
}

// transient fails the test if err is nil or of a kind.
func transient(t testing.TB, err error) {
	t.Helper()
	for _, kind := range []error{backend.ErrConflict, backend.ErrNotFound, backend.ErrPermanent, backend.ErrFenced} {
		if err == nil || errors.Is(err, kind) {
			t.Errorf("the error is %v, want a transient one", err)
			return
		}
	}
}

func TestMigrateIsIdempotentAndConcurrent(t *testing.T) {
	dsn, o := shared.DSN(), postgres.Options{Schema: "migrated_at_once"}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := postgres.Migrate(t.Context(), dsn, o); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s := open(t, dsn, o)
	rev, err := s.Put(t.Context(), "a", []byte("kept"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), dsn, o); err != nil {
		t.Fatal(err)
	}
	if rec, err := s.Get(t.Context(), "a"); err != nil || rec.Revision != rev {
		t.Errorf("after a second Migrate: %v, %v", rec, err)
	}
	sql(t, dsn, "UPDATE migrated_at_once.meta SET version = 99")
	contains(t, postgres.Migrate(t.Context(), dsn, o), "a newer version")
}

// In tables of another cluster, transaction numbers have no meaning: the dump contains higher
// ones.
func TestMigrateAdoptsARestoredDump(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn), Poll: 10 * time.Millisecond}
	s := open(t, dsn, o)
	rev, err := s.Put(t.Context(), "a", []byte("dumped"), "")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	sql(t, dsn, "UPDATE "+o.Schema+".meta SET cluster = '1'", "UPDATE "+o.Schema+".records SET xid = '123456789012345'")
	if err := postgres.Migrate(t.Context(), dsn, o); err != nil {
		t.Fatal(err)
	}
	s = open(t, dsn, o)
	changes := observe(t, s, "")
	changes.await(t, "a", rev)
	if rev, err = s.Put(t.Context(), "a", []byte("new"), rev); err != nil {
		t.Fatal(err)
	}
	changes.await(t, "a", rev)
}

// Restoring a dump in place of the tables creates other tables, without the writes after the
// dump. Polls and later connections detect this.
func TestADumpThatIsRestoredInPlace(t *testing.T) {
	dsn := shared.DSN()
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprint("cut off: ", cut), func(t *testing.T) {
			o := postgres.Options{Schema: newSchema(t, dsn), Poll: 10 * time.Millisecond}
			role := "role_of_" + o.Schema
			sql(t, dsn, "CREATE ROLE "+role+" LOGIN SUPERUSER")
			s := open(t, strings.Replace(dsn, "user=postgres", "user="+role, 1), o)
			put(t, s, "a")
			changes := observe(t, s, "")
			changes.await(t, "a", put(t, s, "a"))
			restore := strings.NewReplacer("{schema}", o.Schema, "{role}", role).Replace(`BEGIN; ALTER TABLE {schema}.records RENAME TO before;
				CREATE TABLE {schema}.records (LIKE {schema}.before INCLUDING ALL); INSERT INTO {schema}.records SELECT * FROM {schema}.before;
				DROP TABLE {schema}.before; COMMIT`)
			if cut {
				sql(t, dsn, "ALTER ROLE "+role+" NOLOGIN", "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '"+role+"'")
			}
			sql(t, dsn, restore, "ALTER ROLE "+role+" LOGIN")
			contains(t, changes.ended(t), "the database was restored from a dump")
			_, err := postgres.Open(t.Context(), dsn, o)
			contains(t, err, "were restored from a dump: call postgres.Migrate")
			o.Migrate = true
			put(t, open(t, dsn, o), "a")
		})
	}
}

// A session that is not told of commits that did not wait for a standby would acknowledge them.
func TestASessionWithoutWarningsIsRefused(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn)}
	_, err := postgres.Open(t.Context(), dsn+" options='-c client_min_messages=error'", o)
	if !errors.Is(err, postgres.ErrNotDurable) {
		t.Errorf("the error is %v, want ErrNotDurable", err)
	}
	contains(t, err, "client_min_messages")
	open(t, dsn+" options='-c client_min_messages=warning'", o)
}

func TestRowsOfTheFutureAreRefused(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn)}
	s := open(t, dsn, o)
	if _, err := s.Put(t.Context(), "a", nil, ""); err != nil {
		t.Fatal(err)
	}
	sql(t, dsn, "UPDATE "+o.Schema+".records SET xid = '123456789012345'")
	_, err := postgres.Open(t.Context(), dsn, o)
	contains(t, err, "restored from a dump")
}

// The role of a store needs only the documented rights, and errors name missing ones.
func TestPrivileges(t *testing.T) {
	dsn := shared.DSN()
	schema := newSchema(t, dsn)
	role := "role_of_" + schema
	sql(t, dsn, "CREATE ROLE "+role+" LOGIN")
	as := strings.Replace(dsn, "user=postgres", "user="+role, 1)
	_, err := postgres.Open(t.Context(), as, postgres.Options{Schema: schema})
	contains(t, err, "the role "+role+" lacks USAGE on schema "+schema)
	if !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("%v is not permanent", err)
	}
	sql(t, dsn, "GRANT USAGE ON SCHEMA "+schema+" TO "+role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO "+role,
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+role)
	s := open(t, as, postgres.Options{Schema: schema, Retention: 50 * time.Millisecond})
	changes := observe(t, s, "")
	revs, err := s.WriteAll(t.Context(), []backend.Write{{Key: "a"}, {Key: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	changes.await(t, "b", revs[1])
	if err := s.Delete(t.Context(), "a", revs[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the row of a deleted key is removed", func() bool {
		return count(t, "SELECT count(*) FROM "+schema+".records") == 1
	})
}

// TestOpenNamesThePrivilegesThatARoleLacks: an engine whose role cannot write would fail with its
// first write.
func TestOpenNamesThePrivilegesThatARoleLacks(t *testing.T) {
	dsn := shared.DSN()
	read := []string{"GRANT USAGE ON SCHEMA {schema} TO {role}", "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"}
	all := []string{
		"GRANT USAGE ON SCHEMA {schema} TO {role}", "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
	}
	for name, c := range map[string]struct {
		grants   []string
		readOnly bool
		want     []string
	}{
		"a role that may only read": {grants: read, want: []string{
			"the role {role} lacks", "INSERT, UPDATE, DELETE on table {schema}.records", "INSERT, DELETE on table {schema}.horizons",
			"UPDATE on table {schema}.meta", "USAGE on sequence {schema}.revisions",
		}},
		"one that may only read, and is to": {grants: read, readOnly: true},
		"one that may not delete":           {grants: append(all, "REVOKE DELETE ON {schema}.records FROM {role}"), want: []string{"lacks DELETE on table {schema}.records (GRANT"}},
		"one that may not purge":            {grants: append(all, "REVOKE UPDATE ON {schema}.meta FROM {role}"), want: []string{"lacks UPDATE on table {schema}.meta (GRANT"}},
		"one that takes no numbers":         {grants: append(all, "REVOKE USAGE ON SEQUENCE {schema}.revisions FROM {role}"), want: []string{"lacks USAGE on sequence {schema}.revisions (GRANT"}},
		"one that reads numbers only":       {grants: append(all, "REVOKE USAGE ON SEQUENCE {schema}.revisions FROM {role}", "GRANT SELECT ON SEQUENCE {schema}.revisions TO {role}"), want: []string{"lacks USAGE on sequence"}},
		"one that calls no function":        {grants: append(all, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC"), want: []string{"EXECUTE on function {schema}.changes; EXECUTE on function {schema}.write (GRANT"}},
		"a role that may do nothing":        {want: []string{"USAGE on schema {schema}", "SELECT, INSERT, UPDATE, DELETE on table {schema}.records"}},
		"nothing, and is to read":           {readOnly: true, want: []string{"lacks USAGE on schema {schema}; SELECT on table {schema}.meta; SELECT on table {schema}.records (GRANT"}},
		"all that the package names":        {grants: all},
		"by a role that it is a member of":  {grants: append(all, "CREATE ROLE {role}_in LOGIN IN ROLE {role}")},
	} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema(t, dsn)
			role := "role_of_" + schema
			named := strings.NewReplacer("{schema}", schema, "{role}", role)
			sql(t, dsn, "CREATE ROLE "+role+" LOGIN")
			for _, grant := range c.grants {
				sql(t, dsn, named.Replace(grant))
			}
			if strings.HasSuffix(strings.Join(c.grants, ";"), "IN ROLE {role}") {
				role += "_in"
			}
			for _, migrate := range []bool{false, true} {
				s, err := postgres.Open(t.Context(), strings.Replace(dsn, "user=postgres", "user="+role, 1),
					postgres.Options{Schema: schema, ReadOnly: c.readOnly, Migrate: migrate && !c.readOnly})
				if err == nil {
					_, err = s.Get(t.Context(), "none")
					s.Close()
					if !errors.Is(err, backend.ErrNotFound) || len(c.want) > 0 {
						t.Errorf("it was opened: %v", err)
					}
					continue
				}
				if len(c.want) == 0 {
					t.Error(err)
				}
				for _, want := range c.want {
					contains(t, err, named.Replace(want))
				}
				if !errors.Is(err, backend.ErrPermanent) || errors.Is(err, postgres.ErrNotMigrated) {
					t.Errorf("%v is not permanent, or is about tables", err)
				}
			}
		})
	}
}

// TestAStoreThatIsReadOnlyWritesNothing: not even the horizons of its purges.
func TestAStoreThatIsReadOnlyWritesNothing(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn), Retention: 50 * time.Millisecond}
	rev := put(t, open(t, dsn, postgres.Options{Schema: o.Schema}), "a")
	o.ReadOnly = true
	s := open(t, dsn, o)
	changes := observe(t, s, "")
	changes.await(t, "a", rev)
	_, putErr := s.Put(t.Context(), "b", nil, "")
	_, batchErr := s.WriteAll(t.Context(), []backend.Write{{Key: "b"}, {Key: "c"}})
	for _, err := range []error{putErr, batchErr, s.Delete(t.Context(), "a", rev)} {
		contains(t, err, "the store was opened to be read")
		if !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%v is not permanent", err)
		}
	}
	if _, err := postgres.Open(t.Context(), dsn, postgres.Options{Schema: o.Schema, ReadOnly: true, Migrate: true}); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("ReadOnly with Migrate: %v", err)
	}
	if n := count(t, "SELECT count(*) FROM "+o.Schema+".horizons"); n != 0 {
		t.Errorf("there are %d horizons", n)
	}
}

// count returns the number that a query returns.
func count(t testing.TB, query string) (n int) {
	t.Helper()
	c := session(t, shared.DSN())
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A server that does not say its timeline is used all the same, and its failovers are not detected.
func TestAServerWithoutATimeline(t *testing.T) {
	server := newServer(t, pgenv.Options{})
	dsn := server.DSN()
	schema := newSchema(t, dsn)
	sql(t, dsn, "CREATE ROLE plain LOGIN", "GRANT ALL ON SCHEMA "+schema+" TO plain", "GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO plain",
		"GRANT ALL ON ALL SEQUENCES IN SCHEMA "+schema+" TO plain",
		"REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn, pg_walfile_name, pg_control_system FROM PUBLIC")
	var said logs
	s := open(t, strings.Replace(dsn, "user=postgres", "user=plain", 1), postgres.Options{Schema: schema, Logger: said.logger()})
	changes := observe(t, s, "")
	changes.await(t, "a", put(t, s, "a"))
	if !said.has("failovers are not detected") {
		t.Error("nothing was logged")
	}
}

func TestNoErrorHasThePassword(t *testing.T) {
	const password = "hidden-word"
	for _, dsn := range []string{
		"host=127.0.0.1 port=1 user=u dbname=d password=" + password,
		"postgres://u:" + password + "@127.0.0.1:1/d",
		"postgres://u:" + password + "@127.0.0.1:none/d",
		"postgres://u:" + password + "%zz@127.0.0.1:1/d",
		"host=127.0.0.1 port=1 password = '" + password + "' sslmode=wrong",
		"host=127.0.0.1 port=1 password='" + password,
		"host=127.0.0.1 port=1 user=u dbname=d sslmode=require sslpassword=" + password,
		"postgres://u@127.0.0.1:1/d?sslpassword=" + password + "&password=" + password,
		"postgres://u@127.0.0.1:1/d?sslcert=none&sslkey=none&sslpassword=" + password,
		fmt.Sprintf("host=127.0.0.1 port=%d user=no_such_role password=%s dbname=%s", shared.Port, password, "postgres"),
	} {
		_, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		migrateErr := postgres.Migrate(t.Context(), dsn, postgres.Options{})
		for _, err := range []error{err, migrateErr} {
			if err == nil {
				t.Fatal("a server was found")
			}
			for ; err != nil; err = errors.Unwrap(err) {
				if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, password) {
					t.Errorf("an error has the password: %s", text)
				}
			}
		}
	}
}

// If the password is a part of the user's name, the name is shown whole: a mask in it would show
// where the password is.
func TestAnErrorHasTheWholeNameOfTheUser(t *testing.T) {
	for _, dsn := range []string{"postgres://slipway:pw@127.0.0.1:1/slipway", "host=127.0.0.1 port=1 user=slipway dbname=slipway password=pw sslpassword=way"} {
		_, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if want := "user=slipway database=slipway"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s in it", err, want)
		}
	}
}

func TestADamagedValueIsPermanent(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn)}
	s := open(t, dsn, o)
	for _, key := range []string{"a", "b", "c"} {
		if _, err := s.Put(t.Context(), key, []byte("value"), ""); err != nil {
			t.Fatal(err)
		}
	}
	for name, damage := range map[string]string{"value": "value = 'Value'", "key": "key = 'bb'", "nonce": "nonce = nonce # 1"} {
		t.Run(name, func(t *testing.T) {
			sql(t, dsn, "CREATE TABLE "+o.Schema+".before AS TABLE "+o.Schema+".records", "UPDATE "+o.Schema+".records SET "+damage+" WHERE key = 'b'")
			key := "b"
			if name == "key" {
				key = "bb"
			}
			if _, err := s.Get(t.Context(), key); !errors.Is(err, backend.ErrPermanent) {
				t.Errorf("get: %v", err)
			}
			var keys []string
			var last error
			for rec, err := range s.List(t.Context(), "") {
				if keys, last = append(keys, rec.Key), err; err != nil {
					break
				}
			}
			if !errors.Is(last, backend.ErrPermanent) || len(keys) != 2 || keys[0] != "a" {
				t.Errorf("list: %q, %v", keys, last)
			}
			sql(t, dsn, "TRUNCATE "+o.Schema+".records", "INSERT INTO "+o.Schema+".records TABLE "+o.Schema+".before", "DROP TABLE "+o.Schema+".before")
		})
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s := fresh(t, postgres.Options{})
	changes := observe(t, s, "")
	rev, err := s.Put(t.Context(), "a", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	changes.await(t, "a", rev)
	s.Close()
	s.Close()
	if err := changes.ended(t); !errors.Is(err, postgres.ErrClosed) {
		t.Errorf("a watch ended with %v", err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, postgres.ErrClosed) {
		t.Errorf("get: %v", err)
	}
}
