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

// create makes the file at path atomically if there is none. link is [os.Link].
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

// found writes the initial buckets and the head of a new file.
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

// place gives the file a second name, path, unless another process was faster. A link never
// replaces a file. A rename does, so on file systems without links creators lock the directory.
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

// newFile is the flags for a file that must not exist.
const newFile = os.O_CREATE | os.O_EXCL

// sweepTime is the maximum wait of opening a new file for the lock of a [sweep] in another
// process, which holds the lock until it removes the file.
const sweepTime = time.Second

// openTemporary makes a bbolt file beside path, under a name that other users cannot guess,
// because they may be able to write to the directory. The file is locked while it is open.
func openTemporary(path string) (*bbolt.DB, error) {
	name := path + "." + rand.Text() + temporarySuffix
	db, err := openDatabase(name, Options{Wait: sweepTime}, newFile, func(*os.File) error { return nil })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = errors.Join(err, removed(name))
	}
	return db, err
}

// A temporary file's name ends in a text of [rand.Text] and the suffix.
const (
	temporarySuffix = ".tmp"
	temporaryText   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	temporaryLen    = 26
)

// isTemporary reports whether a name belongs to a temporary file of the store with the name
// store.
func isTemporary(store, name string) bool {
	text, isOf := strings.CutPrefix(name, store+".")
	text, isOne := strings.CutSuffix(text, temporarySuffix)
	return isOf && isOne && len(text) == temporaryLen && strings.Trim(text, temporaryText) == ""
}

// sweep removes the temporary files that crashes left beside the store at path, which must be
// locked. It keeps files in use, because they belong to another creator, and files that
// openTrusted refuses, because this package did not make them. If files cannot be locked, it
// keeps all.
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

// sweepFile removes a temporary file. If a crash came just after the store got its own name, the
// temporary name is a second name of the store, and only that name is removed.
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

// removed removes a file that may already be missing.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
