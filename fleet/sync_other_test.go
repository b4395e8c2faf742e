//go:build !linux

package fleet_test

import "os"

// syncData syncs what was written to f.
func syncData(f *os.File) error { return f.Sync() }
