//go:build !unix

package bolt

import (
	"io/fs"
	"os"
)

// openFlags are none where the system has none.
const openFlags = 0

// private takes every file: who may write to it is for the system's own lists to
// say.
func private(fs.FileInfo) error { return nil }

func makePrivate(*os.File) error { return nil }
