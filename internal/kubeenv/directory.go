package kubeenv

import (
	"errors"
	"os"
	"path/filepath"
)

// dirPattern is the name of the directory of an environment, inUse that of the file in it which is
// locked as long as its process lives.
const (
	dirPattern = "slipway-kubeenv-"
	inUse      = "in-use"
)

// newDirectory makes the directory of an environment in another, or in that for temporary files, and
// locks it. It removes those that processes left which were killed.
func newDirectory(in string) (dir string, lock *os.File, err error) {
	if in == "" {
		in = os.TempDir()
	}
	sweep(in)
	if dir, err = os.MkdirTemp(in, dirPattern); err != nil {
		return "", nil, err
	}
	if lock, err = lockDirectory(dir); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// lockDirectory locks the file before it gives it its name: a process that finds it unlocked knows that the
// owner is gone.
func lockDirectory(dir string) (*os.File, error) {
	file := filepath.Join(dir, inUse)
	lock, err := os.OpenFile(file+".new", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	tryLock(lock)
	if err := os.Rename(file+".new", file); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// sweep removes the directories of environments whose processes are gone. What it may not touch, it
// leaves.
func sweep(in string) {
	files, err := filepath.Glob(filepath.Join(in, dirPattern+"*", inUse))
	if err != nil {
		return
	}
	for _, file := range files {
		if lock, err := os.OpenFile(file, os.O_RDWR, 0); err == nil {
			if tryLock(lock) {
				_ = os.RemoveAll(filepath.Dir(file))
			}
			_ = lock.Close()
		}
	}
}
