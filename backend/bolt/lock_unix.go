//go:build unix && !solaris && !aix

package bolt

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// canLock is true: files can be locked here.
const canLock = true

// retryLock is the interval between two attempts to lock a file.
const retryLock = 10 * time.Millisecond

// lock takes the same lock as bbolt, so that a file is checked under it. Closing the file
// releases the lock.
func lock(f *os.File, readOnly bool, wait time.Duration) error {
	how := syscall.LOCK_EX
	if readOnly {
		how = syscall.LOCK_SH
	}
	for until := time.Now().Add(wait); ; time.Sleep(retryLock) {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if !time.Now().Before(until) {
			return fmt.Errorf("%w: another process has %s open", ErrInUse, f.Name())
		}
	}
}
