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

// Options say how a file is opened. The zero value is right for most stores.
type Options struct {
	// ReadOnly opens an existing file for reading. Several processes may do so.
	ReadOnly bool
	// Wait is the maximum wait for a file that is in use; 0 does not wait.
	Wait time.Duration
}

// Open opens the store in the file at path. It creates a missing file with permissions 0600; the
// directory must exist. It reads and checks the whole file. The documentation of the package says
// which files it accepts.
//
// The error matches [ErrInUse], [ErrUnsafe], [ErrDamaged] or [ErrNewer], or is an error of the
// file system. In each case the file is unchanged.
func Open(path string, o Options) (*Store, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(filepath.Clean(path)))
	if err != nil {
		return nil, failed("open", path, err)
	}
	path = filepath.Join(dir, filepath.Base(path))
	if !o.ReadOnly {
		if err := create(path, o.Wait, os.Link); err != nil {
			return nil, failed("open", path, err)
		}
	}
	s := &Store{path: path, options: o, committer: committer{requests: make(chan *request, maxRequests), closing: make(chan struct{}), done: make(chan struct{})}}
	if err := s.open(); err != nil {
		return nil, failed("open", path, err)
	}
	if o.ReadOnly {
		close(s.committer.done)
	} else {
		go s.serve()
	}
	return s, nil
}

// syncDirectory makes the names in a file's directory durable, if the system can sync
// directories.
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

// open checks the file and opens the database in it. The lock is held, or the store is not shared
// yet.
func (s *Store) open() error {
	var h head
	db, err := openDatabase(s.path, s.options, 0, func(f *os.File) (err error) {
		if h, err = verify(f); err == nil && !s.options.ReadOnly {
			err = makePrivate(f)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = hasHead(db, h)
	if err == nil && !s.options.ReadOnly {
		err = errors.Join(sweep(s.path), syncDirectory(s.path))
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db, s.head = &database{DB: db}, h
	s.counted.size.Store(fileSize(s.path))
	return nil
}

// verify reads and checks a whole file and returns the head of its store.
func verify(f *os.File) (head, error) {
	info, err := f.Stat()
	if err != nil {
		return head{}, err
	}
	if info.Size() == 0 {
		return head{}, fmt.Errorf("%w: it is empty, which a store never is: put a backup in its place, or remove it for a new store", ErrDamaged)
	}
	c := &totals{}
	if err := fsck(f, info.Size(), c.visit); err != nil {
		return head{}, err
	}
	return c.check()
}

// hasHead checks that the locked file has the head that was checked, and a bucket of records: the
// check of a file does not visit an empty bucket.
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

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// The file grows by allocSize. mapSize is mapped from the beginning on 64-bit systems, because
// growing the mapping waits for readers.
const (
	allocSize = 1 << 20
	mapSize   = 16 << 30
)

// openDatabase opens the bbolt file at path if check accepts it, or creates it if flag is
// newFile. The file is locked before it is checked, if the system supports that.
func openDatabase(path string, o Options, flag int, check func(*os.File) error) (db *bbolt.DB, err error) {
	options := &bbolt.Options{
		Timeout: max(o.Wait, time.Millisecond), ReadOnly: o.ReadOnly, FreelistType: bbolt.FreelistMapType, PreLoadFreelist: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return openChecked(path, o, flag, check) },
	}
	if strconv.IntSize == 64 && runtime.GOOS != "windows" {
		options.InitialMmapSize = mapSize
	}
	err = guarded(func() error {
		db, err = bbolt.Open(path, 0, options)
		return err
	})
	if err != nil {
		return nil, asInUse(path, err)
	}
	db.AllocSize = allocSize
	return db, nil
}

// errReplaced reports that the file's name now belongs to another file.
var errReplaced = errors.New("the file was replaced")

// openChecked opens and locks the file with a name. If another process replaced the file during
// the wait for the lock, openChecked opens the new one.
func openChecked(name string, o Options, flag int, check func(*os.File) error) (*os.File, error) {
	if flag |= os.O_RDWR; o.ReadOnly {
		flag = os.O_RDONLY
	}
	for until := time.Now().Add(o.Wait); ; {
		f, err := openTrusted(name, flag)
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

// named returns errReplaced if the file no longer has the name.
func named(f *os.File, name string) error {
	has, err := os.Lstat(name)
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

// Close waits for the running writes and backups and releases the file. If the file was damaged
// while it was open, it may stay locked until the process ends. Later calls, queued calls and
// watches fail with [ErrClosed]. A second Close does nothing.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.committer.closing)
		<-s.committer.done
		db, boltPanicked := s.shut()
		if boltPanicked {
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

func (s *Store) shut() (db *database, boltPanicked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(ErrClosed)
	return s.db, s.boltPanicked
}

// String names the store by its file.
func (s *Store) String() string { return fmt.Sprintf("bolt store %s", s.path) }
