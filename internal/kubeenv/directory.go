package kubeenv

import (
	"errors"
	"os"
	"path/filepath"
)

// dirPattern is the prefix of the directory name of an environment. inUse is the name of the file
// in it that its process keeps locked.
const (
	dirPattern = "slipway-kubeenv-"
	inUse      = "in-use"
)

// newDirectory creates and locks the directory of an environment in another directory, or in the
// directory for temporary files. It removes the directories of killed processes.
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

// lockDirectory locks the file before it gives it its name: a process that finds it unlocked
// knows that the owner is gone.
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

// sweep removes the directories of environments whose processes have ended. It ignores
// directories that it may not remove.
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
