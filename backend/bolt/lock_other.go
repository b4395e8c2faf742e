//go:build !unix || solaris || aix

package bolt

import (
	"os"
	"time"
)

// canLock is false: files are not locked here before they are checked.
const canLock = false

// lock leaves the lock to bbolt, which takes it after the check.
func lock(*os.File, bool, time.Duration) error { return nil }
