package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
)

// The errors of a store, for [errors.Is].
var (
	// ErrNotDurable: the server acknowledges a commit before it is on the disk. It is also
	// ErrPermanent.
	ErrNotDurable = fmt.Errorf("the server is not durable: %w", backend.ErrPermanent)
	// ErrNotMigrated: the tables are missing, have an older version or were restored from a dump;
	// call [Migrate]. It is also ErrPermanent.
	ErrNotMigrated = errors.New("call postgres.Migrate")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// Transient errors.
var (
	errStandby      = errors.New("the server is a standby, which takes no writes")
	errOldPrimary   = errors.New("the server is an old primary: another server took over")
	errHushed       = fmt.Errorf("%w: client_min_messages hides that a commit was not replicated, it must be warning or lower", ErrNotDurable)
	errRestored     = errors.New("the database was restored from a dump: open the store again")
	errUnreplicated = errors.New("the commit did not wait for the synchronous standby, it may be lost")
	errLostMode     = errors.New("synchronous_commit is off in this session, the commit may be lost")
	errPurged       = errors.New("the watch was away for longer than deletions are kept, watch again")
	errSnapshot     = errors.New("the server returned no snapshot")
	errFailover     = errors.New("another server took over, watch again")
)

// Permanent errors.
var (
	errPrivileges = errors.New("the role needs the privileges that package postgres names")
	errDamaged    = errors.New("the database is damaged")
	errReadOnly   = fmt.Errorf("%w: the store was opened to be read", backend.ErrPermanent)
)

// failed wraps err with the operation and its object.
func failed(op, object string, err error) error {
	return &backend.Error{Op: op, Object: object, Err: err}
}

// kindOf interprets the SQLSTATE of an error that is not simply transient: it returns the remedy,
// whether the connection is useless, and the kind of package backend.
//
// Everything else is returned unchanged and transient: deadlock (40P01), serialization failure
// (40001), disk full (53100), too many connections (53300), shutdown (57P01 to 57P03),
// cancellation (57014), loss of the connection. The outcome of a write is then unknown.
func kindOf(code string) (advice error, useless bool, kind error) {
	switch code {
	case "42P01", "42883", "3F000", "42703": // undefined table, function, schema, column
		return ErrNotMigrated, false, backend.ErrPermanent
	case "42501": // insufficient_privilege
		return errPrivileges, false, backend.ErrPermanent
	case "XX001", "XX002": // data_corrupted, index_corrupted
		return errDamaged, false, backend.ErrPermanent
	case "25006": // read_only_sql_transaction
		return errStandby, true, nil
	}
	return nil, false, nil
}

// refused reports whether err is the server's answer that a transaction had no effect. A pooler
// that has lost the server may also answer ERROR, although the transaction may have been
// committed, but without the untranslated severity:
// https://www.postgresql.org/docs/current/protocol-error-fields.html
func refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(e.Code, "08") // connection_exception
}

// failure turns an error of a connection into the error for callers. It closes a connection to a
// server that accepts no writes.
func (s *Store) failure(c *pgxpool.Conn, err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return withoutSecrets(err)
	}
	advice, useless, kind := kindOf(e.Code)
	if useless && c != nil {
		discard(c.Conn())
	}
	switch {
	case kind != nil:
		return fmt.Errorf("%w: %w: %w", kind, err, advice)
	case advice != nil:
		return fmt.Errorf("%w: %w", err, advice)
	}
	return err
}

// discard closes a connection, so that the pool makes another.
func discard(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // it is useless
}

// oneLine returns a text without line breaks and repeated parts: pgx tries an address again
// without TLS, and lists both errors.
func oneLine(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		if part := strings.TrimSpace(line); part != "" && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	head, rest, _ := strings.Cut(strings.Join(parts, "; "), ":; ")
	if rest == "" {
		return head
	}
	return head + ": " + rest
}

// withoutSecrets returns err without the configuration of a connection that pgx keeps in it,
// because that contains the passwords. The text of the error has the fields user and database, the
// address and the server's answer, and no field with a password. A password is not searched for in
// the text: it may be a part of another field, and masking it there would reveal it.
func withoutSecrets(err error) error {
	if _, is := errors.AsType[*pgconn.ConnectError](err); !is {
		return err
	}
	text := oneLine(err.Error())
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%w: %s", cause, text)
		}
	}
	return errors.New(text)
}
