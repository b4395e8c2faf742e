//go:build !unix || solaris || aix

package bolt

import (
	"os"
	"time"
)

// lock leaves the lock to bbolt, which takes it after the check.
func lock(*os.File, bool, time.Duration) error { return nil }
