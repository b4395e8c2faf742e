package fleet_test

import (
	"os"
	"syscall"
)

// syncData syncs what was written to f, and of its length what is needed to
// read that.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
