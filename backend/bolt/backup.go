package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"go.etcd.io/bbolt"
)

// Backup writes a consistent copy of the file to w while the store keeps running, and returns how
// many bytes it wrote. [Open] opens the copy as a store. During a backup, freed space is not
// reused, and growth of the file beyond 16 GiB waits for the end of the backup. w must not call
// the store.
func (s *Store) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	to := &cancelled{ended: ctx.Err, w: w}
	err = s.breakIfPanicked(guarded(func() error {
		b, err := s.synced(ctx)
		if err != nil {
			return err
		}
		defer b.end()
		n, err = b.WriteTo(to)
		return err
	}))
	if to.panicked != nil {
		panic(to.panicked) //nolint:forbidigo // repeats the panic of the caller's writer
	}
	if err != nil {
		return n, failed("backup", s.path, cmp.Or(to.err, err))
	}
	return n, nil
}

// backup is a transaction that may be long. Closing its database waits for it.
type backup struct {
	*bbolt.Tx
	of *database
}

func (s *Store) beginBackup() (*backup, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.failed != nil {
		return nil, s.failed
	}
	tx, err := s.db.Begin(false)
	if err != nil {
		return nil, err
	}
	s.db.backups.Add(1)
	return &backup{tx, s.db}, nil
}

func (b *backup) end() {
	_ = b.Rollback() // it only read
	b.of.backups.Done()
}

// synced begins a read transaction between two commits.
func (s *Store) synced(ctx context.Context) (*backup, error) {
	if s.options.ReadOnly {
		return s.beginBackup()
	}
	var b *backup
	r := &request{done: make(chan struct{}), job: func() (err error) {
		b, err = s.beginBackup()
		return err
	}}
	_, err := s.ask(ctx, r)
	if err != nil && !r.left {
		go s.discard(r, &b)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// discard ends a backup whose caller left before it began.
func (s *Store) discard(r *request, b **backup) {
	select {
	case <-r.done:
	case <-s.committer.done:
	}
	select {
	case <-r.done:
		if *b != nil {
			(*b).end()
		}
	default:
	}
}

// cancelled is a writer that fails when its context ends. It keeps the cause of the failure,
// because bbolt passes on only its text.
type cancelled struct {
	ended    func() error // the context's error
	w        io.Writer
	err      error
	panicked any
}

var errPanicked = errors.New("the writer panicked")

func (c *cancelled) Write(p []byte) (n int, err error) {
	defer func() {
		if c.panicked = recover(); c.panicked != nil {
			c.err = errPanicked
		}
		err = c.err
	}()
	if c.err = c.ended(); c.err == nil {
		n, c.err = c.w.Write(p)
	}
	return n, c.err
}

// compactStep is the number of bytes that a compaction copies at a time.
const compactStep = 4 << 20

// Compact rewrites the file without its free space, which bbolt never returns to the file system,
// and replaces the old file. Writes wait during a compaction; reads wait only for a moment at the
// end. A crash at any time leaves the old file or the new one, which has permissions 0600. ctx
// cancels a compaction only before it copies. On Windows, where a file in use cannot be replaced,
// the error is [errors.ErrUnsupported].
func (s *Store) Compact(ctx context.Context) error {
	if runtime.GOOS == "windows" {
		return failed("compact", s.path, errors.ErrUnsupported)
	}
	if s.options.ReadOnly {
		return failed("compact", s.path, ErrReadOnly)
	}
	r := &request{done: make(chan struct{}), job: func() error { return s.compact(ctx) }}
	if _, err := s.ask(ctx, r); err != nil {
		return failed("compact", s.path, err)
	}
	return nil
}

func (s *Store) compact(ctx context.Context) error {
	fresh, err := openTemporary(s.path)
	if err != nil {
		return err
	}
	if err := s.copyTo(ctx, fresh); err != nil {
		return errors.Join(err, fresh.Close(), removed(fresh.Path()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(fresh.Path(), s.path); err != nil {
		return errors.Join(err, fresh.Close(), removed(fresh.Path()))
	}
	old := s.db
	s.db = &database{DB: fresh}
	s.old.Go(func() { _ = old.close() })
	s.counted.size.Store(fileSize(s.path))
	if err := syncDirectory(s.path); err != nil {
		s.failLocked(fmt.Errorf("%w: %w", ErrBroken, err))
		return s.failed
	}
	return nil
}

// copyTo copies the database and syncs the copy.
func (s *Store) copyTo(ctx context.Context, to *bbolt.DB) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to.NoSync = true
	defer func() { to.NoSync = false }()
	return guarded(func() error {
		if err := bbolt.Compact(to, s.db.DB, compactStep); err != nil {
			return err
		}
		return to.Sync()
	})
}
