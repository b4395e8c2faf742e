//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package kubeenv

import (
	"os"
	"syscall"
)

// tryLock locks a file until it is closed or the process ends. It does not wait for another's lock.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
