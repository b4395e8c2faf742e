package bolt

import (
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
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to // a compaction replaces the file, and not the link to it
	}
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
	fresh := fresh(path)
	db, err := openDatabase(fresh, Options{Wait: wait}, func(f *os.File) error { return unclaimed(f, fresh, path) })
	if errors.Is(err, errMade) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = found(db); err == nil {
		err = link(fresh, path)
	}
	return errors.Join(err, db.Close(), removed(fresh))
}

// fresh is the name of a file that is being made.
func fresh(path string) string { return path + ".new" }

// errMade tells that another process has made the file meanwhile.
var errMade = errors.New("the file was made by somebody else")

// unclaimed tells whether the file at path can be made of the empty file fresh.
// One that is not empty was left by a crash and may be the file that somebody
// has by another name, so that it loses its name and another one is made.
func unclaimed(f *os.File, fresh, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errMade, err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	return errors.Join(errReplaced, removed(fresh))
}

// found writes what every file has from the beginning.
func found(db *bbolt.DB) error {
	return guarded(func() error {
		return db.Update(func(tx *bbolt.Tx) error {
			if name, _ := tx.Cursor().First(); name != nil && string(name) != recordsBucket {
				return fmt.Errorf("%w: it has a bucket %.80q, so it is the file of something else", ErrDamaged, name)
			}
			if _, err := tx.CreateBucketIfNotExists([]byte(recordsBucket)); err != nil {
				return err
			}
			b, err := tx.CreateBucketIfNotExists([]byte(headBucket))
			if err != nil {
				return err
			}
			return b.Put([]byte(headKey), head{}.encode())
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
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
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
		err = hasHead(db, h)
	}
	if err == nil && !s.options.ReadOnly {
		err = errors.Join(removed(compacted(s.path)), removed(fresh(s.path)), syncDirectory(s.path))
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db, s.head = &database{DB: db}, h
	s.size.Store(fileSize(s.path))
	return nil
}

// hasHead tells whether the locked file has the head that was checked, and a
// place for records: a bucket without any is not visited when a file is checked.
func hasHead(db *bbolt.DB, want head) error {
	return guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(headBucket))
			if tx.Bucket([]byte(recordsBucket)) == nil || b == nil {
				return fmt.Errorf("%w: it lacks a bucket", ErrDamaged)
			}
			have, err := decodeHead(b.Get([]byte(headKey)))
			if err == nil && have != want {
				err = fmt.Errorf("%w: it was written to while it was opened", ErrInUse)
			}
			return err
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
	mapSize   = 16 << 30
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

// errReplaced tells that the name of a file has become another file's.
var errReplaced = errors.New("the file was replaced")

// openChecked opens the file that has the name once it is locked: while it
// waited for the lock, another process may have put a new file in its place.
func openChecked(name string, flag int, mode os.FileMode, o Options, check func(*os.File) error) (*os.File, error) {
	for until := time.Now().Add(o.Wait); ; {
		f, err := os.OpenFile(name, flag, mode)
		if err != nil {
			return nil, err
		}
		if err = lock(f, o.ReadOnly, time.Until(until)); err == nil {
			err = named(f, name)
		}
		if err == nil {
			err = check(f)
		}
		if err == nil {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); !errors.Is(err, errReplaced) {
			return nil, err
		}
	}
}

// named tells whether a file has the name still.
func named(f *os.File, name string) error {
	has, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return errReplaced
	}
	opened, stat := f.Stat()
	if err := errors.Join(err, stat); err != nil {
		return err
	}
	if !os.SameFile(has, opened) {
		return errReplaced
	}
	return nil
}

// Close waits for the writes and backups that were begun and gives the file
// free, unless that was damaged while it was open: then it may stay locked until
// the process ends. Calls after it, and those that wait in line, fail with
// [ErrClosed], and so do watches. Closing again does nothing.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.closing)
		<-s.done
		db, gaveUp := s.shut()
		if gaveUp {
			go func() { _ = guarded(db.Close) }() // it may wait for ever
			return
		}
		s.closed = db.close()
		s.old.Wait()
	})
	if s.closed != nil {
		return failed("close", s.path, s.closed)
	}
	return nil
}

func (s *Store) shut() (db *database, gaveUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(ErrClosed)
	return s.db, s.gaveUp
}

// String names the store by its file.
func (s *Store) String() string { return fmt.Sprintf("bolt store %s", s.path) }
