//go:build !linux

package fleet_test

import "os"

// syncData syncs the data of f.
func syncData(f *os.File) error { return f.Sync() }
