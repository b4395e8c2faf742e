package bolt

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// create makes the file at path, if there is none, so that it is there as a
// whole or not at all. link is [os.Link].
func create(path string, wait time.Duration, link func(name, path string) error) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := openTemporary(path)
	if err != nil {
		return err
	}
	if err = found(db); err == nil {
		err = place(db.Path(), path, wait, link)
	}
	return errors.Join(err, db.Close(), removed(db.Path()))
}

// found writes what every file has from the beginning.
func found(db *bbolt.DB) error {
	return guarded(func() error {
		return db.Update(func(tx *bbolt.Tx) error {
			if _, err := tx.CreateBucket([]byte(recordsBucket)); err != nil {
				return err
			}
			b, err := tx.CreateBucket([]byte(headBucket))
			if err != nil {
				return err
			}
			return b.Put([]byte(headKey), head{}.encode())
		})
	})
}

// place gives the file that has a name the name path, unless another process was
// quicker. A link never replaces a file; a rename does, so that where there are no
// links the lock of the directory keeps creators apart.
func place(name, path string, wait time.Duration, link func(name, path string) error) error {
	err := link(name, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err = lock(dir, false, wait); err == nil {
		if _, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			err = os.Rename(name, path)
		}
	}
	return errors.Join(err, dir.Close())
}

// newFile are the flags of a file that must not exist.
const newFile = os.O_CREATE | os.O_EXCL

// sweepTime is for how long a new file may be locked by a [sweep] of another
// process, which then removes it.
const sweepTime = time.Second

// openTemporary makes a bbolt file beside path, under a name that cannot be
// guessed: another user who may write to the directory could put something there.
// It is locked as long as it is open.
func openTemporary(path string) (*bbolt.DB, error) {
	name := path + "." + rand.Text() + temporarySuffix
	db, err := openDatabase(name, Options{Wait: sweepTime}, newFile, func(*os.File) error { return nil })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = errors.Join(err, removed(name))
	}
	return db, err
}

// What a temporary file's name ends in, behind the text of [rand.Text].
const (
	temporarySuffix = ".tmp"
	temporaryText   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	temporaryLen    = 26
)

// isTemporary reports whether a name is that of a temporary file of the store
// that has the name store.
func isTemporary(store, name string) bool {
	text, isOf := strings.CutPrefix(name, store+".")
	text, isOne := strings.CutSuffix(text, temporarySuffix)
	return isOf && isOne && len(text) == temporaryLen && strings.Trim(text, temporaryText) == ""
}

// sweep removes the temporary files that crashes left beside the store at path,
// which is locked. What is in use is the file of another creator, and what this
// package would not open was not made by it: both stay. So does everything where
// files cannot be locked.
func sweep(path string) error {
	if !canLock {
		return nil
	}
	store, err := os.Lstat(path)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if isTemporary(filepath.Base(path), e.Name()) {
			sweepFile(filepath.Join(filepath.Dir(path), e.Name()), store)
		}
	}
	return err
}

// sweepFile removes a temporary file. It may be the store itself, if a crash came
// when that had just got its own name, and loses one of its names then.
func sweepFile(name string, store fs.FileInfo) {
	if info, err := os.Lstat(name); err == nil && os.SameFile(info, store) {
		_ = removed(name)
		return
	}
	f, err := openTrusted(name, os.O_RDWR)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if lock(f, false, 0) == nil && named(f, name) == nil {
		_ = removed(name)
	}
}

// removed removes a file that may be gone.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
