package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
)

// Options say how a file is opened. The zero value is right for most.
type Options struct {
	// ReadOnly opens a file that exists for reading, beside others that do the
	// same.
	ReadOnly bool
	// Wait is how long to wait for a file that is in use; 0 does not wait.
	Wait time.Duration
}

// Open opens the store in the file at path, which is made if it does not exist,
// in a directory that does; its permissions are then 0600. It reads the whole
// file to check it.
//
// The error matches [ErrInUse], [ErrDamaged] or [ErrNewer], or is that of the
// file system; whatever it is, the file is as it was.
func Open(path string, o Options) (*Store, error) {
	if !o.ReadOnly {
		if err := create(path, o.Wait); err != nil {
			return nil, failed("open", path, err)
		}
	}
	s := &Store{path: path, options: o, requests: make(chan *request, maxRequests), closing: make(chan struct{}), done: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, failed("open", path, err)
	}
	if o.ReadOnly {
		close(s.done)
	} else {
		go s.serve()
	}
	return s, nil
}

// create makes the file at path, if there is none, so that it is there as a
// whole or not at all.
func create(path string, wait time.Duration) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := path + ".new"
	db, err := openDatabase(fresh, Options{Wait: wait}, func(f *os.File) error { return unclaimed(f, fresh, path) })
	if errors.Is(err, errMade) {
		return nil
	}
	if err != nil {
		return err
	}
	err = errors.Join(found(db), link(fresh, path), db.Close(), os.Remove(fresh))
	if err != nil {
		return err
	}
	return syncDirectory(path)
}

// errMade tells that another process has made the file meanwhile.
var errMade = errors.New("the file was made by somebody else")

// unclaimed empties the locked file fresh, unless another process that had it
// has made it the one at path.
func unclaimed(f *os.File, fresh, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errMade, err)
	}
	named, err := os.Stat(fresh)
	if errors.Is(err, fs.ErrNotExist) {
		return errMade
	}
	opened, stat := f.Stat()
	if err = errors.Join(err, stat); err != nil {
		return err
	}
	if !os.SameFile(named, opened) {
		return errMade
	}
	return f.Truncate(0)
}

// found writes what every file has from the beginning.
func found(db *bbolt.DB) error {
	return guarded(func() error {
		return db.Update(func(tx *bbolt.Tx) error {
			if name, _ := tx.Cursor().First(); name != nil && !bytes.Equal(name, recordsBucket) {
				return fmt.Errorf("%w: it has a bucket %.80q, so it is the file of something else", ErrDamaged, name)
			}
			if _, err := tx.CreateBucketIfNotExists(recordsBucket); err != nil {
				return err
			}
			b, err := tx.CreateBucketIfNotExists(headBucket)
			if err != nil {
				return err
			}
			return b.Put(headKey, head{}.encode())
		})
	})
}

// link gives a file its name, unless another process was quicker.
func link(fresh, path string) error {
	err := os.Link(fresh, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// A file system without hard links.
	b, err := os.ReadFile(fresh)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDirectory makes the names in a file's directory durable, where a
// directory can be synced.
func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// open checks the file and opens the database in it. The lock is held, or
// nobody else has the store yet.
func (s *Store) open() error {
	c := &census{}
	db, err := openDatabase(s.path, s.options, func(f *os.File) error {
		info, err := f.Stat()
		if err != nil || info.Size() == 0 && !s.options.ReadOnly {
			return err
		}
		return survey(f, info.Size(), c.visit)
	})
	if err != nil {
		return err
	}
	h, err := c.check()
	if errors.Is(err, errNoHead) && c.found == (head{}) && !s.options.ReadOnly {
		h, err = head{}, found(db)
	}
	if err == nil {
		err = hasRecords(db)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db, s.head = db, h
	s.size.Store(fileSize(s.path))
	if s.options.ReadOnly {
		return nil
	}
	return removed(compacted(s.path))
}

// hasRecords tells whether there is a place for records: a bucket without any is
// not visited when the file is checked.
func hasRecords(db *bbolt.DB) error {
	return guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			if tx.Bucket(recordsBucket) == nil {
				return fmt.Errorf("%w: it has no bucket %q", ErrDamaged, recordsBucket)
			}
			return nil
		})
	})
}

// removed removes what a crash left of a compaction.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// The file grows by allocSize. mapSize is mapped from the beginning, where
// addresses are plenty, because growing the mapping waits for readers.
const (
	allocSize = 1 << 20
	mapSize   = 1 << 30
)

// openDatabase opens the bbolt file at path once check lets it. The file is
// locked before it is checked, where the system can do that.
func openDatabase(path string, o Options, check func(*os.File) error) (db *bbolt.DB, err error) {
	options := &bbolt.Options{
		Timeout: max(o.Wait, time.Millisecond), ReadOnly: o.ReadOnly, FreelistType: bbolt.FreelistMapType, PreLoadFreelist: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			return openChecked(name, flag, mode, o, check)
		},
	}
	if strconv.IntSize == 64 && runtime.GOOS != "windows" {
		options.InitialMmapSize = mapSize
	}
	err = guarded(func() error {
		db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	if err != nil {
		return nil, asInUse(path, err)
	}
	db.AllocSize = allocSize
	return db, nil
}

func openChecked(name string, flag int, mode os.FileMode, o Options, check func(*os.File) error) (*os.File, error) {
	f, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	if err = lock(f, o.ReadOnly, o.Wait); err == nil {
		err = check(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close waits for the writes that were begun and gives the file free, unless
// that was damaged while it was open: then it may stay locked until the process
// ends. Calls after it, and those that wait in line, fail with [ErrClosed].
// Closing again does nothing.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.closing)
		<-s.done
		s.mu.Lock()
		defer s.mu.Unlock()
		gaveUp := errors.Is(s.failed, errGaveUp)
		s.failed = ErrClosed
		if gaveUp {
			go func() { _ = guarded(s.db.Close) }() // it may wait for ever
			return
		}
		s.closed = guarded(s.db.Close)
		s.old.Wait()
	})
	if s.closed != nil {
		return failed("close", s.path, s.closed)
	}
	return nil
}

// String names the store by its file.
func (s *Store) String() string { return fmt.Sprintf("bolt store %s", s.path) }
