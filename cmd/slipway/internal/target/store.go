package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// Store is an open store.
type Store interface {
	backend.Store
	io.Closer
}

// InDatabase reports whether a store is the URL of a PostgreSQL database.
func InDatabase(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// almost matches malformed URLs and connection strings of PostgreSQL.
var almost = regexp.MustCompile(`(?i)^postgres(ql)?:|(^|\s)(host|hostaddr|port|user|password|passfile|dbname|service|ssl[a-z]*)\s*=`)

// CheckStore refuses a name that almost names a database, because it would be a file and may
// contain a password. what names the flag at the beginning of the error, for example --store.
func CheckStore(what, store string) error {
	if InDatabase(store) || !almost.MatchString(store) {
		return nil
	}
	return cli.Usagef("%s: want the name of a file, or postgres://USER@HOST/DATABASE with lower-case letters and two slashes", what)
}

// openTimeout limits the time for a database to answer.
const openTimeout = 30 * time.Second

// OpenStore opens the store for an engine: a file, or a database. It creates a missing file, and
// missing tables. The log receives messages for operators about a database; nil is none.
func OpenStore(ctx context.Context, name string, o bolt.Options, log *slog.Logger) (Store, error) {
	if InDatabase(name) {
		return openDatabase(ctx, name, postgres.Options{Migrate: true, Logger: log})
	}
	if err := notDirectory(name); err != nil {
		return nil, err
	}
	store, err := bolt.Open(name, o)
	if err != nil {
		return nil, NotStore(name, err)
	}
	return store, nil
}

// DemoFile is the name of the store in the directory of demo --data.
const DemoFile = "slipway.db"

// notDirectory returns an error if a store is named by a directory.
func notDirectory(store string) error {
	if info, _ := os.Stat(store); info == nil || !info.IsDir() {
		return nil
	}
	file := filepath.Join(store, DemoFile)
	if info, _ := os.Stat(file); info != nil {
		return cli.Usagef("--store %s: this is a directory; the store of a demo in it is %s", store, file)
	}
	return cli.Usagef("--store %s: this is a directory; want a file, such as %s", store, file)
}

// magic begins the data of a page of bbolt, in both orders of bytes.
var magic = []string{"\xed\xda\x0c\xed", "\xed\x0c\xda\xed"}

// NotStore returns err, or a plainer error if err says that a file is damaged and its beginning is
// of another program. An empty file may be a damaged store. The beginning contains both headers
// of a store.
func NotStore(file string, err error) error {
	const pages = 2 << 16 // two of the largest pages
	if !errors.Is(err, bolt.ErrDamaged) {
		return err
	}
	f, openErr := os.Open(file)
	if openErr != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	head, readErr := io.ReadAll(io.LimitReader(f, pages))
	if readErr != nil || len(head) == 0 || slices.ContainsFunc(magic, func(m string) bool { return bytes.Contains(head, []byte(m)) }) {
		return err
	}
	return fmt.Errorf("%s is not a store of Slipway, or its beginning is destroyed", file)
}

// Plainly returns the cause of an error about a file whose name is in the text already.
func Plainly(err error) error {
	if path, is := errors.AsType[*fs.PathError](err); is {
		return path.Err
	}
	return err
}

func openDatabase(ctx context.Context, url string, o postgres.Options) (*postgres.Store, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, fmt.Errorf("there was no answer within %s", openTimeout))
	defer cancel()
	store, err := postgres.Open(ctx, url, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("the database: %w", context.Cause(ctx))
	case errors.Is(err, postgres.ErrNotMigrated):
		return nil, fmt.Errorf("the database: %w, which slipway serve does", err)
	case err != nil:
		return nil, fmt.Errorf("the database: %w", err)
	}
	return store, nil
}
