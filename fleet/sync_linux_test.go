package fleet_test

import (
	"os"
	"syscall"
)

// syncData syncs the data of f, and its length as far as reads need it.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
